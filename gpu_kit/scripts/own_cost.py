"""`python own_cost.py FOLDER`: trains a run folder, and times what proofs and guards do between what TRL does.

A line of JSON: milliseconds of each step, from the end of the one before, and those that went to callbacks of
grpo-run, by their names. On a GPU both are times between CUDA events, so that what is computed there for a proof counts
as well. What a proof changes inside of TRL's own methods is not among them.
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
"""Of each step, by the name of the callback: when it was called and when it was done."""


def now() -> Any:
    """A moment of the device's own, or by the clock."""
    if not torch.cuda.is_available():
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def between(began: Any, ended: Any) -> float:
    """Milliseconds."""
    found: float = began.elapsed_time(ended) if torch.cuda.is_available() else (ended - began) * 1000
    return found


def timed(callback: Any, event: str) -> None:
    """Has a callback of grpo-run note when it is called for an event and when it is done."""
    call = getattr(callback, event)

    @functools.wraps(call)
    def noted(*given: Any, **named: Any) -> Any:
        began = now()
        try:
            return call(*given, **named)
        finally:
            spans[-1][type(callback).__name__].append((began, now()))

    setattr(callback, event, noted)


def told(handler: Any, event: str, *given: Any, **named: Any) -> Any:
    """CallbackHandler.call_event, with our own callbacks timed."""
    for one in handler.callbacks:
        is_ours = type(one).__module__.startswith("grpo_recipes")
        if is_ours and event != TRAINING_ENDS and event not in vars(one):
            timed(one, event)
    control = call_event(handler, event, *given, **named)
    if event == STEP_ENDS:
        ends.append(now())
    elif event == "on_step_begin" and len(spans) == len(ends):
        spans.append(defaultdict(list))  # on_log comes after on_step_end, and is of that step
    elif event == TRAINING_ENDS:
        print(json.dumps(found()), flush=True)
    return control


def found() -> dict[str, Any]:
    """What was noted, when the device has done it; the first step has no beginning."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    own = [
        {name: round(sum(between(*span) for span in some), 3) for name, some in step.items()}
        for step in spans[1 : len(ends)]
    ]
    steps = [round(between(before, after), 3) for before, after in pairwise(ends)]
    return {"steps_ms": steps, "own_ms": own}


CallbackHandler.call_event = told

if __name__ == "__main__":
    sys.exit(train(Path(sys.argv[1]).resolve(), resume=False))
