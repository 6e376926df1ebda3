"""Keys for several machines or a cluster are used only if the run has them.

The section `slurm` needs `launch.engine: slurm`. `launch.main_process_ip` and `launch.main_process_port` are for the
commands that `launch.engine: local` prints for several machines: a Slurm job uses the address of its first machine, and
derives the port from its job id, so that two jobs do not collide.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.host.engines import SECTIONS
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import ENGINE, is_slurm, machines

ID = "WLD005"


def check(context: Context) -> Iterator[Finding]:
    engine = context.value(ENGINE)
    for section, name in SECTIONS.items():
        if context.has_section(section) and engine != name:
            fix = f"launch.engine: {name}, or remove {section}"
            better = [] if context.is_given(ENGINE) else [Patch(("launch", "engine"), name)]
            message, because = f"`{section}` has no effect", f"launch.engine is {engine}"
            yield context.finding(message, section, because, fix=fix, patch=better, severity="warning")
    for name in ("main_process_ip", "main_process_port"):
        key = f"launch.{name}"
        if not context.is_given(key) or context.value(key) is None:
            continue
        if is_slurm(context):
            yield _without_effect(context, key, f"launch.engine is {engine}, which sets it itself")
        elif machines(context) == 1 and context.value("launch.num_nodes") == 1:
            yield _without_effect(context, key, "launch.num_nodes is 1", ", or write launch.num_nodes: 2")


def _without_effect(context: Context, key: str, why: str, otherwise: str = "") -> Finding:
    fix = f"remove {key.partition('.')[2]}{otherwise}"
    return context.wrong(f"{key} has no effect", key, why, fix=fix, severity="warning")
