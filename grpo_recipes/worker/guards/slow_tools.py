"""Steps wait longer for tools than for the completions themselves.

Calls are answered one after the other in each process, while its GPU has nothing to do. What the run costs is then the
tools' time.

Threshold: more seconds in tools than in the generator, mean of 10 optimizer steps, and more than a second a step.
Signal: tools/seconds and tools/generating_seconds, means of the processes; calls of asynchronous tools that run beside
each other count each.

Action: note. The result is the same, later.
What to do: a smaller tools[].timeout, since a call that hangs takes all of it; `async def` for a tool that waits for
something else, since TRL runs the calls of one turn beside each other; a cache in the tool.
"""

from grpo_recipes.contract.metric_names import GENERATING_SECONDS, TOOL_SECONDS
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line, Window, shown

ID = "GRD013"
NAME = "slow_tools"
STEPS = 10
FEWEST_SECONDS = 1.0


class SlowTools(Guard):
    """The seconds of tools against those of the generator."""

    def __init__(self) -> None:
        self._windows = {name: Window(STEPS) for name in (TOOL_SECONDS, GENERATING_SECONDS)}

    def look(self, line: Line) -> Alarm | None:
        """At most once in 10 steps."""
        if not all(name in line.figures for name in self._windows):
            return None
        self.seen = True
        means = {name: window.add(line, line.figures[name]) for name, window in self._windows.items()}
        tools, generating = means[TOOL_SECONDS], means[GENERATING_SECONDS]
        if tools is None or generating is None or tools <= max(generating, FEWEST_SECONDS):
            return None
        return Alarm.of(
            tools,
            f"a generation waits {shown(tools)} seconds for tools and {shown(generating)} for the model",
            "calls are answered one after the other in each process",
            "a smaller tools[].timeout, an `async def` where a tool waits for something else, or a cache in it",
        )
