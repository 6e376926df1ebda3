"""What is wrong with machines of a cluster for a plan; tests/slurm asks real ones."""

from dataclasses import replace

import pytest
from support.plans import small_plan

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.host.child_environment import MachineLimits
from grpo_recipes.contract.plan_machine import World
from grpo_recipes.engines.slurm_nodes import AskedNode, nodes_findings
from grpo_recipes.stack.stack import Gpu, Stack

TWO = World("slurm", 1, 2, "cuda", "ddp")
H100 = Gpu("NVIDIA H100 80GB HBM3", 79.6, (9, 0))
STACK = Stack("3.12", {"torch": "2.13.0", "trl": "1.16.0"}, (H100, H100), True, False, "this machine")
GOOD = MachineLimits(16 << 30, None, True, ("lo", "eth0", "ib0"))


def said(node: AskedNode, **environment: str) -> list[str]:
    """The messages about one machine."""
    plan = small_plan(TWO, stack={"packages": {"torch": "2.13.0", "trl": "1.16.0"}}, environment=environment)
    return [finding.message for finding in nodes_findings(plan, [node])]


def test_a_good_machine_is_quiet() -> None:
    assert said(AskedNode("n1", STACK, (), GOOD)) == []


@pytest.mark.parametrize(
    ("has", "message"),
    [
        (GOOD._replace(shared_memory=64 << 20), "n1: /dev/shm has 64 MiB free"),
        (GOOD._replace(locked_memory=64 << 10), "n1: a process may lock 64 KiB"),
    ],
)
def test_what_nccl_lacks_is_said(has: MachineLimits, message: str) -> None:
    (only,) = said(AskedNode("n1", STACK, (), has))
    assert only.startswith(message)


def test_gpus_and_releases_are_those_of_the_plan() -> None:
    other = STACK._replace(gpus=(H100,), packages={"torch": "2.13.0", "trl": "0.29.0"})
    assert said(AskedNode("n1", other, (), None)) == [
        "n1: a task sees 1 GPUs, the plan needs 2",
        "n1: trl 0.29.0, planned for 1.16.0",
    ]


@pytest.mark.parametrize(
    ("variable", "value", "count"),
    [
        ("NCCL_SOCKET_IFNAME", "eth", 0),
        ("NCCL_SOCKET_IFNAME", "=eth", 1),
        ("NCCL_SOCKET_IFNAME", "=ib0", 0),
        ("NCCL_SOCKET_IFNAME", "bond,ib", 0),
        ("NCCL_SOCKET_IFNAME", "^docker,lo", 0),
        ("NCCL_SOCKET_IFNAME", "bond0", 1),
        ("GLOO_SOCKET_IFNAME", "eth", 1),
        ("GLOO_SOCKET_IFNAME", "eth0", 0),
    ],
)
def test_interfaces_are_looked_up_as_nccl_and_gloo_do(variable: str, value: str, count: int) -> None:
    assert len(said(AskedNode("n1", STACK, (), GOOD), **{variable: value})) == count


def test_a_machine_without_the_job_s_interface_is_named() -> None:
    plan = small_plan(TWO)
    for interface, count in (("ib0", 0), ("ib7", 1)):
        job = replace(plan, job={**plan.job, "interface": interface})
        assert len(nodes_findings(job, [AskedNode("n1", STACK, (), GOOD)])) == count


def test_what_several_machines_lack_is_one_finding() -> None:
    found = Finding("STK016", "error", "torch reaches no GPU")
    nodes = [replace(AskedNode("n1", STACK, (found,), GOOD), name=name) for name in ("n1", "n2")]
    assert [one.message for one in nodes_findings(small_plan(TWO), nodes)] == ["n1, n2: torch reaches no GPU"]
