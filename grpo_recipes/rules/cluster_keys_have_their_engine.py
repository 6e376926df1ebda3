"""Keys for several machines or a cluster are used only if the run has them.

The section `slurm` needs `launch.engine: slurm`. `launch.main_process_ip` and `launch.main_process_port` are for the
commands that `launch.engine: local` prints for several machines: a Slurm job uses the address of its first machine, and
derives the port from its job id, so that two jobs do not collide.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.host.engines import SECTIONS
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import is_slurm, machines

ID = "WLD005"


def check(context: Context) -> Iterator[Finding]:
    engine = context.value("launch.engine")
    for section, name in SECTIONS.items():
        if context.has_section(section) and engine != name:
            why = f"launch.engine is {engine}"
            yield _finding(context, (section,), f"`{section}` has no effect", why, f"launch.engine: {name}")
    for name in ("main_process_ip", "main_process_port"):
        key = f"launch.{name}"
        if not context.is_given(key) or context.value(key) is None:
            continue
        if is_slurm(context):
            why = f"launch.engine is {engine}, which sets it itself"
            yield _finding(context, ("launch", name), f"{key} has no effect", why)
        elif machines(context) == 1 and context.value("launch.num_nodes") == 1:
            more = "launch.num_nodes: 2"
            yield _finding(context, ("launch", name), f"{key} has no effect", "launch.num_nodes is 1", more)


def _finding(context: Context, path: tuple[str, ...], what: str, why: str, otherwise: str = "") -> Finding:
    fix = f"remove {path[-1]}" + (f", or write {otherwise}" if otherwise else "")
    return context.wrong(what, ".".join(path), why, at=path, fix=fix, severity="warning")
