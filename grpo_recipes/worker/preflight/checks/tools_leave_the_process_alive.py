"""No tool call exceeds its time limit, ends its process, or uses all memory.

What: a call that takes longer than tools[].timeout, a method of an environment that takes longer than
environment.timeout, a call that ends its process by os._exit or a crash, or that exceeds the memory limit of tools. A
call that hangs in a library is ended 5 s after its timeout, or after --time-limit if that is longer.
Why: the call is ended, and the model gets an error. All GPUs wait for it, and for a new process if the tool's process
ended. A method of an environment runs in the training process: if it crashes or hangs in a library, so does training.
Fix: set a timeout for anything that may take long (requests, code written by the model), shorter than tools[].timeout
or environment.timeout.
Example: tool search took longer than 10 seconds and was ended
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.worker.preflight._shared.hosted import end_words
from grpo_recipes.worker.preflight._shared.reward_seen import cut
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight._shared.tools_seen import ToolCall, ToolsSeen, by_tool, call_text, place_in_recipe

ID = "PFL031"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.tools is None:
        return
    for tool, calls in by_tool(inputs.tools).items():
        ended = [call for call in calls if call.by in ("time", "end", "killed")]
        if ended:
            first = ended[0]
            yield mistake(
                f"tool {_words(inputs.tools, first)}",
                place_in_recipe(inputs.plan, tool),
                because=(
                    first.place,
                    f"it was called as {call_text(first)}",
                    "it runs in the process that trains" if first.by == "killed" else "",
                ),
                fix="set a timeout for slow operations in it" if "time" in (first.by, first.end) else None,
                severity="error" if first.by == "killed" else "warning",
            )


def _words(tools: ToolsSeen, call: ToolCall) -> str:
    if call.by == "killed":
        return f"{call.tool} {end_words(call.end, tools.time_limit)}"
    text = cut(call.error, 200)
    return text if text.startswith(call.tool) else f"{call.tool}: {text}"
