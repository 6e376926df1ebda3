"""Keys for several machines or a cluster are used only if the run has them.

The section `slurm` needs `launch.engine: slurm`. `launch.main_process_ip` and `launch.main_process_port` are for the
commands that `launch.engine: local` prints for several machines. A Slurm job uses its first machine, and a port derived
from its number, so that two jobs do not collide.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import is_slurm, machines

ID = "WLD005"
SECTION = "slurm"


def check(context: Context) -> Iterator[Finding]:
    if context.has_section(SECTION) and context.value("launch.engine") == "local":
        yield _finding(context, (SECTION,), "no job is submitted", "launch.engine is local", "launch.engine: slurm")
    for name in ("main_process_ip", "main_process_port"):
        key = f"launch.{name}"
        if not context.given(key) or context.value(key) is None:
            continue
        if is_slurm(context):
            yield _finding(
                context, ("launch", name), f"{key} has no effect", "launch.engine is slurm, which sets it itself"
            )
        elif machines(context) == 1 and context.value("launch.num_nodes") == 1:
            more = "launch.num_nodes: 2"
            yield _finding(context, ("launch", name), f"{key} has no effect", "launch.num_nodes is 1", more)


def _finding(context: Context, path: tuple[str, ...], what: str, why: str, otherwise: str = "") -> Finding:
    fix = f"remove {path[-1]}" + (f", or write {otherwise}" if otherwise else "")
    return context.wrong(what, ".".join(path), why, at=path, fix=fix, severity="warning")
