"""Tools answer preflight's calls.

What: preflight makes the calls of preflight.turns or, if the recipe has none, up to three calls to each tool, with
arguments of the types in its description. It reports the first call to each tool that raises, with exception and line.
Why: the model gets an exception as {'error': ...} and the run continues, so with a tool that never works it learns to
do without tools. Preflight's own arguments may be wrong for a tool that needs more than the right types: the finding is
then a note; write better arguments into preflight.turns.
Fix: follow the exception; or preflight: {turns: [{tool: NAME, arguments: {...}}]} with a call that should work.
Example: tool search fails: ConnectionError: refused (tools.py:9: return get(query))
Source: trl's grpo_trainer.py (_tool_call_loop).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.worker.preflight._shared.reward_seen import cut
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight._shared.tools_seen import by_tool, call_text, place_in_recipe

ID = "PFL030"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.tools is None:
        return
    for tool, calls in by_tool(inputs.tools).items():
        failed = [call for call in calls if call.by == "raised"]
        if not failed:
            continue
        first, times = failed[0], "" if len(failed) == len(calls) else f" in {len(failed)} of {len(calls)} calls"
        yield mistake(
            f"tool {tool} fails{times}: {cut(first.error, 200)}",
            place_in_recipe(inputs.plan, tool),
            because=(first.place, f"it was called as {call_text(first)}"),
            fix=None if inputs.tools.scripted else "preflight.turns with a call that should work",
            severity="warning" if inputs.tools.scripted else "note",
        )
