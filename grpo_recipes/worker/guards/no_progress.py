"""A step, an evaluation batch or a save takes far longer than it should.

Examples are a reward that waits for a service, a collective that one process never joined, a generation server that
died, and a regular expression that backtracks endlessly. Most of these never end, with a GPU at 100 % or at 0 %.

Threshold: for a step, guards.no_progress_factor, 10, times the median of the last 50 steps, or
guards.no_progress_seconds, 300, whichever is larger. Everything else has no median, and gets six times
guards.no_progress_seconds, half an hour: the start of the training, its first 5 steps, which compile and warm up, each
evaluation batch, and logging and saving between two steps. Time in which the process itself was stopped does not count.
Past the threshold, the stacks of all threads of each process are written to stalled/rank-<rank>.txt in the run folder:
the process whose stacks differ from the others hangs.

Action: stop. The guard first warns, and ends the run with exit 3 after four times the threshold (at least 20 minutes,
or two hours for everything else). With several processes it waits until one minute after ddp_timeout, if that is later:
by then, processes that lost contact have ended by themselves, and the run can be resumed. The step that hangs is lost;
the last checkpoint is not. A small watcher program kills the process from outside, since code may block all threads, so
launch.sh, started by hand, ends with 137.
What to do: read the stacks. Set a time limit in rewards that wait for something, and use no regular expression that
backtracks endlessly. If steps really differ that much, use a larger guards.no_progress_seconds.
"""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.worker.guards.alarm import Alarm

ID = "GRD006"
NAME = "no_progress"
STEP = "a step"
FEWEST_STEPS = 5
REMEMBERED_STEPS = 50
STOP_AFTER = 4
UNKNOWN_FACTOR = 6
AFTER_TIMEOUT_S = 60.0


class Activity(NamedTuple):
    """The main thread's activity, and the seconds after which it is late and after which the process is ended.

    what: such as "a step". usual_s: the median, None if unknown. action: of the guard.
    """

    what: str
    step: int
    usual_s: float | None
    longest_s: float
    end_s: float
    action: str


def longest(guards: Guards, durations: Sequence[float]) -> float:
    """Returns the seconds that a step may take. durations: of the last steps, empty for anything but a step."""
    if len(durations) < FEWEST_STEPS:
        return float(UNKNOWN_FACTOR * guards.no_progress_seconds)
    return max(guards.no_progress_factor * median(durations), float(guards.no_progress_seconds))


def end_after(longest_s: float, ddp_timeout_s: float | None) -> float:
    """Returns the seconds after which the process is ended. ddp_timeout_s: None for a single process."""
    return max(STOP_AFTER * longest_s, 0.0 if ddp_timeout_s is None else ddp_timeout_s + AFTER_TIMEOUT_S)


def alarm(activity: Activity, seconds: float, stacks: str, where: str) -> Alarm:
    """Returns the alarm for an activity that takes too long.

    stacks: the file with the stacks of all threads. where: a line of code.
    """
    usual = "" if activity.usual_s is None else f", the median is {activity.usual_s:.2g} s"
    return Alarm.of(
        round(seconds, 1),
        f"{activity.what} has taken {seconds:.0f} s so far{usual}; it is at {where}",
        f"some code waits or hangs; the stacks of all threads are in {stacks}",
        "set a time limit in the code that waits, or raise guards.no_progress_seconds if it may take this long",
    )
