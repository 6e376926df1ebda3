"""Every call to a tool fails.

The policy gets an error from every call: it learns to do without the tool, or to work around its errors. The usual
causes are a tool that needs a missing file, service or variable, a time or memory limit that every call exceeds, and
names or arguments that the policy never gets right.

Threshold: all calls of 10 optimizer steps, at least 8 of them, without a single result. Signal: tools/<name>/calls and
tools/<name>/failures, over all processes. For all tools together: tools/call_frequency and tools/failed_call_frequency,
the calls and failed calls of a completion, which also count calls to tools that do not exist.

Action: warn. The log has the error of each tool's first failed call.
What to do: call the tool yourself with the arguments of a kept completion; change tools[].timeout, or let the tools use
less memory: all of them share 1 GiB.
"""

from grpo_recipes.contract.metric_names import TOOL_CALLS, TOOL_FAILED_CALLS, TOOL_FAILURES
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line

ID = "GRD012"
NAME = "failing_tools"
STEPS = 10
FEWEST_CALLS = 8
_CALLS, _FAILURES = "/calls", "/failures"


class FailingTools(Guard):
    """Sums the calls to each tool over so many steps."""

    def __init__(self) -> None:
        self._steps = 0
        self._sums: dict[str, tuple[float, float]] = {}

    def look(self, line: Line) -> Alarm | None:
        """Alarms at most once in 10 steps."""
        if TOOL_CALLS not in line.figures:
            return None
        self.seen = True
        for name, calls in line.figures.items():
            if name.startswith("tools/") and name.endswith(_CALLS):
                tool = name.removeprefix("tools/").removesuffix(_CALLS)
                failures = line.figures.get(f"tools/{tool}{_FAILURES}", 0.0)
                self._add(tool, calls * line.steps, failures * line.steps)
        # A generation without a call has a share of 0 failed, so the mean of shares over a line is too low.
        failed = line.figures.get(TOOL_FAILED_CALLS, line.figures[TOOL_CALLS] * line.figures.get(TOOL_FAILURES, 0.0))
        self._add("", line.figures[TOOL_CALLS] * line.steps, failed * line.steps)
        self._steps += line.steps
        if self._steps < STEPS:
            return None
        steps, sums, self._steps, self._sums = self._steps, self._sums, 0, {}
        failing = [tool for tool, (calls, failures) in sums.items() if tool and FEWEST_CALLS <= calls <= failures]
        calls, failures = sums[""]
        if not failing and not (calls >= 1 and failures >= calls):
            return None
        which = ", ".join(failing) or "any tool"
        return Alarm.of(
            1.0,
            f"every call to {which} in the last {steps} steps failed",
            "the policy gets errors instead of results",
            "see each tool's first failure in the log; repair the tool, or change tools[].timeout",
        )

    def _add(self, tool: str, calls: float, failures: float) -> None:
        before = self._sums.get(tool, (0.0, 0.0))
        self._sums[tool] = before[0] + calls, before[1] + failures
