"""Slurm signals a job to save before its time limit, and not right at its start.

Slurm kills a job at its time limit. `slurm.signal_seconds` before that it signals the run, which finishes its
generation, saves and stops; the job then requeues itself (`slurm.max_requeues`). How long a step takes is not known
before a run, so auto is ten minutes, or a quarter of a shorter limit. Slurm may signal up to a minute early. If
signal_seconds covers the whole limit, each start of the job saves immediately and makes no progress.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.machines import is_slurm
from grpo_recipes.rules._shared.settings import Setting

ID = "WLD007"
SIGNAL, TIME = "slurm.signal_seconds", "slurm.time"
OWNS = (SIGNAL,)
USUAL_S = 600


def decide(context: Context) -> Iterator[Setting]:
    if not is_slurm(context) or context.value(SIGNAL) != "auto":
        return
    limit = seconds(context.value(TIME))
    if limit is None:
        why = "ten minutes, since the recipe sets no time limit"
    elif limit // 4 >= USUAL_S:
        why = "ten minutes, since the length of a step is unknown"
    else:
        why = f"a quarter of the time limit of {limit} seconds"
    yield rule_setting(SIGNAL, USUAL_S if limit is None else _within(limit), why)


def check(context: Context) -> Iterator[Finding]:
    if not is_slurm(context):
        return
    limit, signal = seconds(context.value(TIME)), context.whole(SIGNAL)
    if limit is not None and signal >= limit:
        better = _within(limit)
        message = f"signal_seconds {signal} covers the whole time limit of {limit} seconds"
        because = [f"slurm.time: {context.origin(TIME)}", "each start of the job would save immediately and stop"]
        yield context.wrong(message, SIGNAL, because, better)


def _within(limit: int) -> int:
    return max(1, min(USUAL_S, limit // 4))


def seconds(time: object) -> int | None:
    """The seconds of a time as sbatch takes it, None for no limit. Source: sbatch 22.05, --time."""
    if not isinstance(time, int | str):
        return None
    days, dash, rest = str(time).rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        parts = [*parts, 0, 0][:3]
    elif len(parts) == 1:
        parts = [0, *parts, 0]
    hours, minutes, rest_s = [0, 0, 0, *parts][-3:]
    return (int(days or 0) * 24 + hours) * 3600 + minutes * 60 + rest_s or None
