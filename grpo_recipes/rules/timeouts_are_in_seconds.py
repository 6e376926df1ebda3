"""The time limits of calls are in seconds.

`timeout` of a tool, an environment and a judge counts seconds. Many programs count milliseconds: `timeout: 5000` lets a
call that hangs hold up its step for 83 minutes, which is longer than the processes wait for each other (`ddp_timeout`).
The rule warns of at least 1000 seconds.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch, Path, value_at
from grpo_recipes.rules._shared.context import Context

ID = "TOL019"
FEWEST_S = 1000


def check(context: Context) -> Iterator[Finding]:
    for path, name in _calls(context):
        seconds = value_at(context.source.values, (*path, "timeout"))
        if isinstance(seconds, int | float) and seconds >= FEWEST_S:
            yield context.finding(
                f"timeout {seconds:g} of {name} is {seconds / 60:.0f} minutes",
                str(path[0]),
                "timeout counts seconds, and a call that hangs holds up its step that long",
                patch=[Patch((*path, "timeout"), seconds / 1000)],
                severity="warning",
                mark=context.source.mark((*path, "timeout")),
            )


def _calls(context: Context) -> Iterator[tuple[Path, str]]:
    """Where a recipe may limit calls, and what is called."""
    yield from ((("tools", index), str(tool["python"])) for index, tool in enumerate(context.items("tools")))
    if context.has_section("environment"):
        yield ("environment",), "the environment"
    for index, reward in enumerate(context.items("rewards")):
        if reward.get("judge") is not None:
            yield ("rewards", index, "judge"), "the judge"
