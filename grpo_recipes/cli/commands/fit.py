"""`grpo-run fit`: the GPU memory that a recipe needs, machine by machine."""

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.cli.options import RunOptions, chosen_stack, set_option, target_option
from grpo_recipes.cli.resolving import resolved
from grpo_recipes.contract.errors import Refusal
from grpo_recipes.contract.exits import EXIT_DIFFERENT, EXIT_DONE
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.memory.estimate import MemoryEstimate
from grpo_recipes.report.fit_text import Fitted, fit_json, fit_text
from grpo_recipes.resolve.resolve import Resolution
from grpo_recipes.rules import memory_is_enough
from grpo_recipes.rules._shared.memory_needs import memory_needs
from grpo_recipes.stack.probe import machine_memory
from grpo_recipes.stack.stack import Stack
from grpo_recipes.stack.target import parse_target


@click.command()
@click.argument("recipe", shell_complete=files)
@set_option
@target_option
@click.option(
    "--gpus",
    metavar="MACHINES",
    help="Machines to compare instead of the stack's own GPUs, e.g. 1xA100-40GB,8xH100-80GB; counts are GPUs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print bytes for programs.")
def fit(
    recipe: str,
    overrides: tuple[str, ...],
    target: str | None,
    gpus: str | None,
    as_json: bool,
) -> int:
    """Estimate a recipe's memory per GPU, or on the CPU; no torch, no GPU.

    The estimate comes from the model's config.json and the plan. Exits 0 if the recipe fits everywhere, even tightly,
    and 1 otherwise.

    \b
    grpo-run fit recipe.yaml --gpus 1xA100-40GB,8xH100-80GB
    """
    stack = chosen_stack(target)
    machines = {"this stack": stack} if gpus is None else _machines(stack, gpus)
    found = [_fitted(name, resolved(recipe, machine, RunOptions(overrides))) for name, machine in machines.items()]
    click.echo(redact((fit_json if as_json else fit_text)(found)))
    return EXIT_DONE if all(one.verdict() in ("fits", "tight") for one in found) else EXIT_DIFFERENT


def _machines(stack: Stack, gpus: str) -> dict[str, Stack]:
    """The stack on each machine. Raises Refusal for an unreadable one."""
    found = {}
    for name in filter(None, (part.strip() for part in gpus.split(","))):
        declared, findings = parse_target(f"gpus={name}")
        if declared is None:
            raise Refusal(*findings)
        found[name] = _elsewhere(stack, name)._replace(gpus=declared.gpus)
    if not found:
        raise Refusal.of("--gpus is empty", fix="--gpus 1xA100-40GB,8xH100-80GB")
    return found


def _elsewhere(stack: Stack, name: str) -> Stack:
    """The releases of this machine on another one, whose driver, compilers and build of torch are not known.

    Nor is it known what else is installed there.
    """
    if stack.declared:
        return stack
    return stack._replace(
        packages={name: found.partition("+")[0] for name, found in stack.packages.items() if found is not None},
        declared=True,
        origin=name,
        driver=None,
        torch_cuda=None,
        c_compiler=None,
        python_headers=None,
        avx512_bf16=None,
    )


def _fitted(name: str, resolution: Resolution) -> Fitted:
    """A recipe's needs on a machine. Raises Refusal for an unreadable recipe."""
    errors = tuple(f for f in resolution.findings if f.severity == "error" and f.rule != memory_is_enough.ID)
    if resolution.context is None:
        raise Refusal(*errors)
    if errors:
        return Fitted(name, MemoryEstimate((), None), refused=errors)
    needs = memory_needs(resolution.context)
    if isinstance(needs, str):
        return Fitted(name, MemoryEstimate((), None, needs))
    processes = needs.layout.processes
    layout = f"{needs.layout.strategy}, {processes} process{'es' if processes > 1 else ''}"
    unit = "GPU"
    if needs.update.device == "cpu":
        unit, memory = "process", None if resolution.context.stack.declared else machine_memory()
        here = max(1, processes // resolution.context.whole("world.num_nodes"))
        needs = needs._replace(gpu_bytes=None if memory is None else memory // here)
    return Fitted(
        name,
        needs.estimate(),
        f"{layout}, micro-batch {needs.update.batch}",
        needs.assumed,
        ways=next((f.fix or "" for f in resolution.findings if f.rule == memory_is_enough.ID), ""),
        unit=unit,
    )
