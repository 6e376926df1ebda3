"""How many runs an engine has going at once, and that each of them has devices of its own."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Vllm, VllmServer
from grpo_recipes.engines.base import engine_of
from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.stack.target import parse_target

RECIPE = "recipes/quickstart.yaml"


def planned(*overrides: str, gpus: str = "8xH100-80GB") -> Plan:
    """The quickstart for GPUs."""
    stack, _ = parse_target(f"tested,gpus={gpus}")
    assert stack is not None
    return plan_of(resolve(RECIPE, stack, overrides))


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str | None], None]:
    """Lets this machine show so many GPUs, of which CUDA_VISIBLE_DEVICES names some."""

    def show(count: int, visible: str | None) -> None:
        lines = "".join(f"echo 'GPU-{place}, NVIDIA H100, 81559, 9.0, Disabled'\n" for place in range(count))
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{lines}")
        (tmp_path / "nvidia-smi").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return show


@pytest.mark.processes
@pytest.mark.parametrize(
    ("count", "visible", "each", "expected"),
    [
        pytest.param(4, None, 4, [None], id="one run takes all"),
        pytest.param(4, None, 3, [None], id="no room for a second one"),
        pytest.param(0, None, 1, [None], id="planned for another machine"),
        pytest.param(4, None, 1, ["0", "1", "2", "3"], id="one GPU each"),
        pytest.param(5, None, 2, ["0,1", "2,3"], id="two GPUs each, one left"),
        pytest.param(8, "5, 2,7", 1, ["5", "2", "7"], id="those that may be seen"),
        pytest.param(4, "3,9,1", 1, [None], id="behind one that there is not CUDA sees none"),
    ],
)
def test_the_gpus_of_this_machine_are_shared_out(
    count: int, visible: str | None, each: int, expected: list[str | None], driver: Callable[[int, str | None], None]
) -> None:
    plan = planned(f"launch.gpus_per_node={each}", "training.prompts_per_step=24")
    driver(count, visible)
    assert [share.get("CUDA_VISIBLE_DEVICES") for share in engine_of(plan).shares(plan)] == expected


@pytest.mark.processes
def test_on_a_cpu_one_run_goes_on_at_a_time(driver: Callable[[int, str | None], None]) -> None:
    driver(4, None)
    plan = planned("launch.gpus_per_node=0")
    assert engine_of(plan).shares(plan) == [{}]


@pytest.mark.processes
def test_the_gpus_of_a_server_belong_to_its_run(driver: Callable[[int, str | None], None]) -> None:
    server = VllmServer(("-m", "vllm"), {}, (1,), None, 60, 0)
    plan = dataclasses.replace(planned("launch.gpus_per_node=1"), vllm=Vllm("server", "bfloat16", server=server))
    driver(4, None)
    assert [share["CUDA_VISIBLE_DEVICES"] for share in engine_of(plan).shares(plan)] == ["0,1", "2,3"]


@pytest.mark.parametrize(("name", "some"), [("slurm", True), ("by_hand", False)])
def test_a_cluster_shares_out_itself_and_a_person_starts_one_by_one(name: str, some: bool) -> None:
    plan = planned("launch.gpus_per_node=0")
    plan = dataclasses.replace(plan, world=dataclasses.replace(plan.world, engine=name))
    shares = engine_of(plan).shares(plan)
    assert bool(shares) == some
    assert all(share == {} for share in shares)
