"""Implements `grpo-run fit`: the GPU memory that a recipe needs, machine by machine."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.cli.options import RunOptions, choose_stack, set_option, target_option
from grpo_recipes.cli.resolving import resolve_recipe
from grpo_recipes.contract.exits import EXIT_DIFFERENT, EXIT_DONE, Refusal
from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.contract.findings.findings_text import bare_text
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.memory.estimate import MemoryEstimate
from grpo_recipes.report.plan_text import GIB, memory_table
from grpo_recipes.resolve.resolve import Resolution
from grpo_recipes.rules import memory_is_enough
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import is_of_a_cluster
from grpo_recipes.rules._shared.memory_needs import memory_needs
from grpo_recipes.stack.probe import machine_memory
from grpo_recipes.stack.stack import Stack
from grpo_recipes.stack.target import parse_target


@dataclass(frozen=True, slots=True)
class Fitted:
    """The memory estimate of a recipe on one machine. refused: errors that prevent the recipe from running there.

    ways: changes that would make it fit, "" if it fits or is unknown. least: the estimate for short prompts, None if
    their length is known.
    unit: what has the memory, "GPU" or, on the CPU, "process": its share of this machine's memory.
    """

    machine: str
    estimate: MemoryEstimate
    layout: str = ""
    assumed: tuple[str, ...] = ()
    refused: tuple[Finding, ...] = ()
    ways: str = ""
    unit: str = "GPU"
    least: MemoryEstimate | None = None

    def verdict(self) -> str:
        """Returns the verdict that the answer begins with."""
        return "cannot run" if self.refused else self.estimate.verdict()


def fit_text(machines: Sequence[Fitted]) -> str:
    """Formats a block for each machine: the verdict, and terms by phase in GiB of one GPU."""
    return "\n\n".join(map(_memory, machines))


def fit_json(machines: Sequence[Fitted]) -> str:
    """Returns the answer for programs, in bytes."""
    return json.dumps({"machines": [_value(machine) for machine in machines]}, indent=2)


def _memory(machine: Fitted) -> str:
    peak, gpu_bytes = machine.estimate.peak(), machine.estimate.gpu_bytes
    lines = [f"{machine.machine}: {machine.verdict()}"]
    if reasons := _reasons(machine):
        return bare_text([mistake(lines[0], because=reasons)])
    if peak is not None:
        of = "" if gpu_bytes is None else f" of {gpu_bytes / GIB:.1f}"
        needed = f"{_least_text(machine)}{peak.total() / GIB:.1f}"
        lines[0] += f", {needed}{of} GiB of each {machine.unit} in {peak.name} ({machine.layout})"
    if gpu_bytes is None:
        whose = "its GPUs have" if machine.unit == "GPU" else "it has"
        lines.append(f"  = unknown: how much memory {whose}")
    lines += [f"  = assumed: {assumed}" for assumed in machine.assumed]
    if peak is not None and (context := peak.size_of("context")):
        nccl = peak.size_of("communicators")
        outside = f"{(context + nccl) / GIB:.1f} of CUDA's context{' and NCCL' if nccl else ''}"
        lines.append(f"  = of it {outside}; the rest is what torch allocates, and its cache may hold more")
    lines += [f"  = would fit with: {machine.ways}"] if machine.ways else []
    return "\n".join([*lines, *(f"  {row}" for row in memory_table(machine.estimate.by_phase()))])


def _least_text(machine: Fitted) -> str:
    """Formats the lower end of a range, "" if the length of prompts is known or makes no difference."""
    peak = None if machine.least is None else machine.least.peak()
    whole = machine.estimate.peak()
    if peak is None or whole is None or f"{peak.total() / GIB:.1f}" == f"{whole.total() / GIB:.1f}":
        return ""
    return f"{peak.total() / GIB:.1f} to "


def _reasons(machine: Fitted) -> list[str]:
    """Returns why there is no estimate."""
    if machine.refused:
        return [f"{finding.message} [{finding.rule}]" for finding in machine.refused]
    return [machine.estimate.unknown] if machine.estimate.unknown else []


def _value(machine: Fitted) -> dict[str, object]:
    peak = machine.estimate.peak()
    least = None if machine.least is None else machine.least.peak()
    return {
        "machine": machine.machine,
        "verdict": machine.verdict(),
        "because": "; ".join(_reasons(machine)) or None,
        "gpu_bytes": machine.estimate.gpu_bytes,
        "peak": None if peak is None else {"phase": peak.name, "bytes": peak.total()},
        "least": None if least is None else {"phase": least.name, "bytes": least.total()},
        "layout": machine.layout or None,
        "assumed": list(machine.assumed),
        "phases": machine.estimate.by_phase(),
        "fix": machine.ways or None,
    }


@click.command()
@click.argument("recipe", shell_complete=files)
@set_option
@target_option
@click.option(
    "--gpus",
    metavar="MACHINES",
    help="Machines to compare instead of the stack's own GPUs, as COUNTxGPU, e.g. 1xA100-40GB,8xH100-80GB.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the estimates as JSON, in bytes.")
def fit(
    recipe: str,
    overrides: tuple[str, ...],
    target: str | None,
    gpus: str | None,
    as_json: bool,
) -> int:
    """Estimate a recipe's memory per GPU, or on the CPU; needs neither torch nor a GPU.

    Computes it from the model's config.json and the plan. Exits 0 if the recipe fits on every machine, even tightly,
    and 1 otherwise.

    \b
    grpo-run fit recipe.yaml --gpus 1xA100-40GB,8xH100-80GB
    """
    stack = choose_stack(target)
    machines = {"": stack} if gpus is None else _machines(stack, gpus)
    estimates = [
        _fit_of(name, resolve_recipe(recipe, machine, RunOptions(overrides))) for name, machine in machines.items()
    ]
    click.echo(redact((fit_json if as_json else fit_text)(estimates)))
    return EXIT_DONE if all(estimate.verdict() in ("fits", "tight") for estimate in estimates) else EXIT_DIFFERENT


def _machines(stack: Stack, gpus: str) -> dict[str, Stack]:
    """Returns the stack on each machine. Raises Refusal for an unreadable one."""
    stacks = {}
    for name in filter(None, (part.strip() for part in gpus.split(","))):
        declared, findings = parse_target(f"gpus={name}")
        if declared is None:
            raise Refusal(*findings)
        stacks[name] = _elsewhere(stack, name)._replace(gpus=declared.gpus)
    if not stacks:
        raise Refusal.of("--gpus is empty", fix="--gpus 1xA100-40GB,8xH100-80GB")
    return stacks


def _elsewhere(stack: Stack, name: str) -> Stack:
    """Returns this machine's releases for a different machine, whose driver, compilers and torch build are unknown.

    Other programs installed there are unknown too.
    """
    if stack.declared:
        return stack
    return stack._replace(
        packages={name: release.partition("+")[0] for name, release in stack.packages.items() if release is not None},
        declared=True,
        origin=name,
        driver=None,
        torch_cuda=None,
        c_compiler=None,
        python_headers=None,
        avx512_bf16=None,
    )


def _own_name(context: Context) -> str:
    """Names the owner of the stack's GPUs."""
    if context.stack.declared:
        return context.stack.origin
    return "the cluster" if is_of_a_cluster(context) else "this stack"


def _fit_of(name: str, resolution: Resolution) -> Fitted:
    """Returns a recipe's needs on a machine, "" for the stack's own. Raises Refusal for an unreadable recipe."""
    errors = tuple(f for f in resolution.findings if f.severity == "error" and f.rule != memory_is_enough.ID)
    if resolution.context is None:
        raise Refusal(*errors)
    name = name or _own_name(resolution.context)
    if errors:
        return Fitted(name, MemoryEstimate((), None), refused=errors)
    needs = memory_needs(resolution.context)
    if isinstance(needs, str):
        return Fitted(name, MemoryEstimate((), None, needs))
    processes = needs.layout.processes
    layout = f"{needs.layout.strategy}, {processes} process{'es' if processes > 1 else ''}"
    unit = "GPU"
    if needs.update.device == "cpu":
        is_elsewhere = resolution.context.stack.declared or is_of_a_cluster(resolution.context)
        unit, memory = "process", None if is_elsewhere else machine_memory()
        here = max(1, processes // resolution.context.whole("world.num_nodes"))
        needs = needs._replace(gpu_bytes=None if memory is None else memory // here)
    return Fitted(
        name,
        needs.estimate(),
        f"{layout}, micro-batch {needs.update.batch}",
        needs.assumed,
        ways=next((f.fix or "" for f in resolution.findings if f.rule == memory_is_enough.ID), ""),
        unit=unit,
        least=needs.least(),
    )
