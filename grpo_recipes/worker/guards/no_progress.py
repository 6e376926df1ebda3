"""A step, a batch of an evaluation or a save takes far longer than it should.

A reward that waits for a service, a collective that one process never joined, a generation server that died, a
regular expression that backtracks without end: each waits, most of them for ever, with a GPU at 100 % or at 0 %.

Threshold: guards.no_progress_factor times the median of the last 50 steps, 10 times, and guards.no_progress_seconds,
300, whichever is more. For all else, which has no median, six times guards.no_progress_seconds, half an hour: the start
of the training, its first 5 steps, which compile and warm up, each batch of an evaluation, and what follows a step
until the next one begins, logging and saving. Time in which the process itself was stopped does not count. The stacks
of all threads are then written to stalled/rank-<rank>.txt in the run folder, by each process: the one that differs is
the one that hangs.

Action: stop, which at first warns, and ends the run with exit 3 when it takes four times as long as that (20 minutes
at least, two hours for all else). Where several processes train, not before ddp_timeout is over by a minute: processes
that lost each other end by themselves then, and can be resumed. The step that hangs is lost; the last checkpoint is
not. A main thread that never lets another thread run is ended from outside, by a small program beside each process.
What to do: read the stacks. A reward that may wait needs a time limit of its own. Where steps really differ so much,
a larger guards.no_progress_seconds.
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
    """Seconds that a step may take. durations: seconds of the last steps, empty for what is no step."""
    if len(durations) < FEWEST_STEPS:
        return float(UNKNOWN_FACTOR * guards.no_progress_seconds)
    return max(guards.no_progress_factor * median(durations), float(guards.no_progress_seconds))


def end_after(longest_s: float, ddp_timeout_s: float | None) -> float:
    """Seconds after which the process is ended. ddp_timeout_s: None where one process trains alone."""
    return max(STOP_AFTER * longest_s, 0.0 if ddp_timeout_s is None else ddp_timeout_s + AFTER_TIMEOUT_S)


def alarm(seconds: float, what: str, durations: Sequence[float], stacks: str, where: str) -> Alarm:
    """What takes so long: "a step". stacks: the file with the stacks of all threads; where: a line of code."""
    usual = f", the median is {median(durations):.2g} s" if len(durations) >= FEWEST_STEPS else ""
    return Alarm.of(
        round(seconds, 1),
        f"{what} takes {seconds:.0f} s so far{usual}; it is at {where}",
        f"something in it waits; the stacks of all threads are in {stacks}",
        "a time limit in what waits; guards.no_progress_seconds where it may take so long",
    )


def held(seconds: float, what: str, stacks: str, where: str) -> Alarm:
    """No thread of the process could run for so long."""
    return Alarm.of(
        round(seconds, 1),
        f"{what} lets no other thread of its process run for {seconds:.0f} s; it is at {where}",
        f"the code there never gives the interpreter back, as a regular expression that backtracks without end; "
        f"the stacks of all threads are in {stacks}",
        "an expression that does not backtrack, or one with a time limit in a process of its own",
    )
