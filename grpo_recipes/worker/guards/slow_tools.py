"""Steps spend more time in tools than in generating completions.

Each process runs calls one after another while its GPU is idle, so the run mostly waits for tools.

Threshold: more seconds in tools than in the generator, averaged over 10 optimizer steps, and more than one second per
step.
Signal: tools/seconds and tools/generating_seconds, means of the processes; asynchronous calls that run at the same time
each count in full.

Action: note. The run is only slower; its result is the same.
What to do: a smaller tools[].timeout, since a call that hangs uses all of it; `async def` for a tool that waits for
something else, since TRL runs the asynchronous calls of one turn at the same time; a cache in the tool.
"""

from grpo_recipes.contract.metric_names import GENERATING_SECONDS, TOOL_SECONDS
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line, Window, figure

ID = "GRD013"
NAME = "slow_tools"
STEPS = 10
FEWEST_SECONDS = 1.0


class SlowTools(Guard):
    """Compares the seconds in tools with those in the generator."""

    def __init__(self) -> None:
        self._windows = {name: Window(STEPS) for name in (TOOL_SECONDS, GENERATING_SECONDS)}

    def look(self, line: Line) -> Alarm | None:
        """Alarms at most once in 10 steps."""
        if not all(name in line.figures for name in self._windows):
            return None
        self.seen = True
        means = {name: window.add(line, line.figures[name]) for name, window in self._windows.items()}
        tools, generating = means[TOOL_SECONDS], means[GENERATING_SECONDS]
        if tools is None or generating is None or tools <= max(generating, FEWEST_SECONDS):
            return None
        return Alarm.of(
            tools,
            f"a generation waits {figure(tools)} seconds for tools and {figure(generating)} for the model",
            "each process runs calls one after another",
            "a smaller tools[].timeout, `async def` for a tool that waits, or a cache in the tool",
        )
