"""An optimizer step takes far longer than the steps before it did.

A reward that waits for a service, a collective that one process never joined, a generation server that died: each
waits, most of them for ever, with a GPU at 100 % or at 0 %.

Threshold: guards.no_progress_factor times the median of the last 50 steps, 10 times, and guards.no_progress_seconds,
300, whichever is more; the first 5 steps of a process, which compile and warm up, are not watched. Only the time
inside a step counts, with its generation, rewards and both passes: evaluation, saving and the data loader are outside,
and so is time in which the process itself was stopped. The stacks of all threads are then written to
stalled/rank-<rank>.txt in the run folder, by each process: the one that differs is the one that hangs.

Action: stop, which at first warns, and ends the run with exit 3 when the step takes four times as long as that
(20 minutes at least). The step that hangs is lost; the last checkpoint is not.
What to do: read the stacks. A reward that may wait needs a time limit of its own. Where steps really differ so much,
a larger guards.no_progress_seconds.
"""

from collections.abc import Sequence
from statistics import median

from grpo_recipes.plan import Guards
from grpo_recipes.worker.guards.alarm import Alarm

ID = "GRD006"
NAME = "no_progress"
FEWEST_STEPS = 5
REMEMBERED_STEPS = 50
STOP_AFTER = 4


def longest(guards: Guards, durations: Sequence[float]) -> float | None:
    """Seconds that a step may take, None while too few steps are known. durations: seconds of the last steps."""
    if len(durations) < FEWEST_STEPS:
        return None
    return max(guards.no_progress_factor * median(durations), float(guards.no_progress_seconds))


def alarm(seconds: float, durations: Sequence[float], stacks: str, where: str) -> Alarm:
    """A step that takes so long. stacks: the file with the stacks of all threads; where: the innermost known line."""
    return Alarm(
        round(seconds, 1),
        f"a step takes {seconds:.0f} s so far, the median is {median(durations):.2g} s; it is at {where}",
        f"something in it waits; the stacks of all threads are in {stacks}",
        "a time limit in what waits; guards.no_progress_seconds where steps may take so long",
    )
