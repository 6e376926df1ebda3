"""`python own_cost.py FOLDER`: trains a run folder and times the proofs and guards that run between TRL's work.

Prints a line of JSON: milliseconds of each step, from the end of the previous one, and of each grpo-run callback, by
name. On a GPU both are times between CUDA events, so a proof's GPU work counts too. Work that proofs do inside TRL's
own methods is not included.
"""

import functools
import json
import sys
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from transformers.trainer_callback import CallbackHandler

from grpo_recipes.worker.run import train

STEP_ENDS, TRAINING_ENDS = "on_step_end", "on_train_end"
call_event = CallbackHandler.call_event
ends: list[Any] = []
spans: list[dict[str, list[tuple[Any, Any]]]] = [defaultdict(list)]
"""Start and end of each callback in each step, by name."""


def now() -> Any:
    """Returns a CUDA event, or the time on the CPU."""
    if not torch.cuda.is_available():
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def between(began: Any, ended: Any) -> float:
    """Returns milliseconds."""
    found: float = began.elapsed_time(ended) if torch.cuda.is_available() else (ended - began) * 1000
    return found


def timed(callback: Any, event: str) -> None:
    """Records when a grpo-run callback starts and ends for an event."""
    call = getattr(callback, event)

    @functools.wraps(call)
    def noted(*given: Any, **named: Any) -> Any:
        began = now()
        try:
            return call(*given, **named)
        finally:
            spans[-1][type(callback).__name__].append((began, now()))

    setattr(callback, event, noted)


def timed_event(handler: Any, event: str, *given: Any, **named: Any) -> Any:
    """Replaces CallbackHandler.call_event with one that times our callbacks."""
    for one in handler.callbacks:
        is_ours = type(one).__module__.startswith("grpo_recipes")
        if is_ours and event != TRAINING_ENDS and event not in vars(one):
            timed(one, event)
    control = call_event(handler, event, *given, **named)
    if event == STEP_ENDS:
        ends.append(now())
    elif event == "on_step_begin" and len(spans) == len(ends):
        spans.append(defaultdict(list))  # on_log comes after on_step_end, and counts for that step
    elif event == TRAINING_ENDS:
        print(json.dumps(measured_times()), flush=True)
    return control


def measured_times() -> dict[str, Any]:
    """Returns the times once the device is done; the first step has no start."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    own = [
        {name: round(sum(between(*span) for span in some), 3) for name, some in step.items()}
        for step in spans[1 : len(ends)]
    ]
    steps = [round(between(before, after), 3) for before, after in pairwise(ends)]
    return {"steps_ms": steps, "own_ms": own}


CallbackHandler.call_event = timed_event

if __name__ == "__main__":
    sys.exit(train(Path(sys.argv[1]).resolve(), resume=False))
