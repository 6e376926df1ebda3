"""The policy has called no tool for many steps, although the plan has tools.

The run then trains a model that answers directly. Either it never learned to call tools (its template or its size does
not support it), or the rewards pay for short answers and it stopped calling. Every prompt still describes the tools.

Threshold: guards.unused_tools_steps, 20 optimizer steps in a row without a call. Signal: tools/call_frequency, which
TRL logs over all processes, 0 in each of them; steps that share a generation count once they are logged with it.

Action: warn. A task can be learned without its tools.
What to do: read the completions in grpo-run report. Use a model that was taught to call tools, an example of a call in
dataset.system_prompt, a reward for a call that helps, or a larger generation.max_completion_length if calls are cut.
"""

from grpo_recipes.contract.metric_names import TOOL_CALLS
from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line

ID = "GRD011"
NAME = "unused_tools"


class UnusedTools(Guard):
    """Counts the steps since the last call."""

    def __init__(self, guards: Guards) -> None:
        self._limit = guards.unused_tools_steps
        self._steps = 0

    def look(self, line: Line) -> Alarm | None:
        """Alarms at most once in so many steps."""
        calls = line.figures.get(TOOL_CALLS)
        if calls is None:
            return None
        self.seen = True
        self._steps = 0 if calls else self._steps + line.steps
        if self._steps < self._limit:
            return None
        steps, self._steps = self._steps, 0
        return Alarm.of(
            steps,
            f"no tool was called in the last {steps} steps",
            "the policy answers directly: it cannot write a call, or the rewards do not favour calls",
            "read completions.jsonl; use a model that was taught to call tools, or a reward for a call that helps",
        )
