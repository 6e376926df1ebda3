"""Checks nodes of a Slurm cluster before a job trains on them; each node examines itself."""

import fnmatch
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.host.child_environment import MachineLimits, small_for_nccl
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.read_plan import section_of
from grpo_recipes.engines.slurm_job import clean_environment, nodes_sh
from grpo_recipes.render.job import job_of
from grpo_recipes.render.launch_script import variables_to_export
from grpo_recipes.stack.stack import Stack, from_json_value

OTHER_MACHINE = "WLD014"
_OF_NCCL, _OF_GLOO = "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"
_TRAINING = ("torch", "transformers", "trl", "peft", "accelerate", "deepspeed")


@dataclass(frozen=True, slots=True)
class AskedNode:
    """What a node reported about itself. limits: None if an older grpo-run there does not report them."""

    name: str
    stack: Stack
    found: tuple[Finding, ...]
    limits: MachineLimits | None


def ask_nodes(plan: Plan, count: int, limit_s: int) -> list[AskedNode]:
    """Lets `count` nodes examine themselves once Slurm allocates them; srun's messages go to stderr.

    limit_s: how long to wait in the queue. Raises Refusal without srun, or if a node does not answer.
    """
    if shutil.which("srun") is None:
        raise Refusal.of("srun is not installed here", fix="run this on a login node of the cluster")
    words = ["bash", "-c", nodes_sh(plan, count, limit_s)]
    environment = clean_environment(PYTHON=sys.executable)
    asking = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        out, _ = asking.communicate()
    except BaseException:
        asking.terminate()  # srun takes its job out of the queue
        asking.wait()
        raise
    nodes = [node for node in map(_node, _by_task(out).values()) if node is not None]
    if asking.returncode or len(nodes) < count:
        raise Refusal.of(
            f"{len(nodes)} of {count} machines answered",
            because="srun says above why the others did not",
            fix="--queue-limit SECONDS for a busy cluster; or the recipe's slurm section: sinfo lists the partitions",
        )
    return sorted(nodes, key=lambda node: node.name)


def _by_task(out: str) -> dict[str, list[str]]:
    """The lines of each task, as `srun --label` marks them."""
    lines: dict[str, list[str]] = {}
    for line in out.splitlines():
        task, colon, text = line.partition(":")
        if colon and task.strip().isdigit():
            lines.setdefault(task.strip(), []).append(text[1:])
    return lines


def _node(lines: list[str]) -> AskedNode | None:
    try:
        answer: dict[str, Any] = json.loads("\n".join(lines[1:]))
        findings = tuple(_finding(row) for row in answer["findings"])
        told_limits = answer.get("limits")
        has = None if told_limits is None else section_of(MachineLimits, told_limits, "limits")
        return AskedNode(lines[0], from_json_value(answer["stack"]), findings, has)
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _finding(row: dict[str, Any]) -> Finding:
    return Finding(row["rule"], row["severity"], row["message"], because=tuple(row["because"]), fix=row["fix"])


def nodes_findings(plan: Plan, nodes: list[AskedNode]) -> list[Finding]:
    """The problems of the nodes for this plan, each once, with the names of its nodes."""
    of: dict[Finding, list[str]] = {}
    for node in nodes:
        for finding in dict.fromkeys(_of_node(plan, node)):
            of.setdefault(finding, []).append(node.name)
    return [finding._replace(message=f"{', '.join(names)}: {finding.message}") for finding, names in of.items()]


def _of_node(plan: Plan, node: AskedNode) -> Iterator[Finding]:
    yield from node.found
    needed, there = job_of(plan).gpus_per_node, len(node.stack.gpus or ())
    if there < needed:
        fix = "sinfo -o '%n %G' shows what the nodes have; slurm.gpu_option: gres for some clusters"
        yield Finding(OTHER_MACHINE, "error", f"a task sees {there} GPUs, the plan needs {needed}", fix=fix)
    planned = plan.stack.get("packages")
    planned = planned if isinstance(planned, dict) else {}
    for name in _TRAINING:
        here = node.stack.version(name)
        if name in planned and planned[name] != here:
            fix = "plan for that stack: --target with what grpo-run doctor --json prints there"
            yield Finding(OTHER_MACHINE, "error", f"{name} {here or 'is absent'}, planned for {planned[name]}", fix=fix)
    if node.limits is None or plan.world.num_processes < 2:
        return
    if plan.world.device == "cuda":
        yield from small_for_nccl(node.limits)
    yield from _interfaces(plan, node.limits.interfaces)


def _interfaces(plan: Plan, there: tuple[str, ...]) -> Iterator[Finding]:
    """Reports network interfaces that the plan names and the node lacks.

    NCCL matches the beginnings of names, whole names after "=", and excludes names after "^"; Gloo matches whole names.
    """
    of_the_job = plan.job.get("interface")
    if of_the_job is not None and of_the_job not in there:
        message = f"slurm.interface is {of_the_job}, but the node has the interfaces {', '.join(there)}"
        yield Finding(OTHER_MACHINE, "error", message, fix="slurm.interface: one of them, or null")
    for variable in (_OF_NCCL, _OF_GLOO):
        value = variables_to_export(plan).get(variable) or os.environ.get(variable, "")
        names = [name for name in value.lstrip("=").split(",") if name]
        is_whole = variable == _OF_GLOO or value.startswith("=")
        if value.startswith("^") or not names:
            continue
        if not any(fnmatch.filter(there, name if is_whole else f"{name}*") for name in names):
            message = f"{variable} is {value}, but the node has the interfaces {', '.join(there)}"
            yield Finding(OTHER_MACHINE, "error", message, fix=f"launch.environment.{variable}: one of them")
