"""A step, an evaluation batch or a save takes far longer than it should.

A reward that waits for a service, a collective that one process never joined, a generation server that died, a regular
expression that backtracks endlessly: each of them waits, most of them forever, with a GPU at 100 % or at 0 %.

Threshold: for a step, guards.no_progress_factor, 10, times the median of the last 50 steps, or
guards.no_progress_seconds, 300, whichever is more. Everything else has no median, and gets six times
guards.no_progress_seconds, half an hour: the start of the training, its first 5 steps, which compile and warm up, each
evaluation batch, and logging and saving between two steps. Time in which the process itself was stopped does not count.
Past the threshold, each process writes the stacks of all its threads to stalled/rank-<rank>.txt in the run folder: the
process whose stacks differ is the one that hangs.

Action: stop. The guard first warns, and ends the run with exit 3 after four times the threshold (at least 20 minutes,
or two hours for everything else). With several processes it waits until one minute after ddp_timeout, if that is later:
processes that lost each other have ended by themselves by then, and can be resumed. The step that hangs is lost; the
last checkpoint is not. A small program beside each process ends it from outside if its main thread lets no other thread
run.
What to do: read the stacks. Give a reward that may wait its own time limit. If steps really differ that much, use a
larger guards.no_progress_seconds.
"""

from collections.abc import Sequence
from statistics import median

from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.worker.guards.alarm import Alarm

ID = "GRD006"
NAME = "no_progress"
FEWEST_STEPS = 5
REMEMBERED_STEPS = 50
STOP_AFTER = 4
UNKNOWN_FACTOR = 6
AFTER_TIMEOUT_S = 60.0


def longest(guards: Guards, durations: Sequence[float]) -> float:
    """Seconds that a step may take. durations: seconds of the last steps, empty for anything but a step."""
    if len(durations) < FEWEST_STEPS:
        return float(UNKNOWN_FACTOR * guards.no_progress_seconds)
    return max(guards.no_progress_factor * median(durations), float(guards.no_progress_seconds))


def end_after(longest_s: float, ddp_timeout_s: float | None) -> float:
    """Seconds after which the process is ended. ddp_timeout_s: None for a single process."""
    return max(STOP_AFTER * longest_s, 0.0 if ddp_timeout_s is None else ddp_timeout_s + AFTER_TIMEOUT_S)


def alarm(seconds: float, what: str, durations: Sequence[float], stacks: str, where: str) -> Alarm:
    """The alarm for what, such as "a step". stacks: the file with the stacks of all threads; where: a line of code."""
    usual = f", the median is {median(durations):.2g} s" if len(durations) >= FEWEST_STEPS else ""
    return Alarm.of(
        round(seconds, 1),
        f"{what} has taken {seconds:.0f} s so far{usual}; it is at {where}",
        f"something in it waits; the stacks of all threads are in {stacks}",
        "a time limit for the code that waits, or a larger guards.no_progress_seconds if it may take this long",
    )


def held(seconds: float, what: str, stacks: str, where: str) -> Alarm:
    """The alarm for code that let no other thread of its process run for so long."""
    return Alarm.of(
        round(seconds, 1),
        f"{what} has let no other thread of its process run for {seconds:.0f} s; it is at {where}",
        f"the code there never releases the interpreter, such as a regular expression that backtracks endlessly; "
        f"the stacks of all threads are in {stacks}",
        "an expression that does not backtrack, or a time limit for it in a separate process",
    )
