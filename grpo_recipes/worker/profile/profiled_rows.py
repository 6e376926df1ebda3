"""Answers each training row several times with the untrained policy, in the same way as an evaluation."""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from datetime import time as time_of_day
from pathlib import Path
from typing import Any

from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.findings.lost_peer import causes
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.profile import ASKED, PROFILE, RATES, profile_in_row
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker._shared.start_phases import StartPhases
from grpo_recipes.worker._shared.verified import facts_of_trainer
from grpo_recipes.worker.completions.evaluation import evaluate
from grpo_recipes.worker.completions.figures import JudgedRow, rates
from grpo_recipes.worker.data.dataset import load_rows
from grpo_recipes.worker.memory.out_of_memory import out_of_memory
from grpo_recipes.worker.profile.partial_rows import PartialRows, with_digest
from grpo_recipes.worker.profile.server import ServedModel
from grpo_recipes.worker.survival.interruption import Interruption
from grpo_recipes.worker.tools.turns import load_turns
from grpo_recipes.worker.training import Training
from grpo_recipes.worker.vllm.engine import close_engine

MOST_AT_ONCE = 128
"""Completions per batch of transformers; vLLM schedules its own batches."""
TOLD_TIMES = 10
Say = Callable[[str], None]


def profile_rows(
    plan: Plan, folder: Path, profile: dict[str, Any], partial: PartialRows, say: Say, now: Say
) -> dict[str, Any]:
    """Answers the rows that are not in the partial file yet, adds them, and returns the totals.

    folder: a run folder of the plan, whose evaluation describes how to answer its own data, with one process. profile:
    the value of the column `profile`. say: prints a permanent line. now: prints a line that the next one replaces.
    Raises Refused, NotWritten, OutOfMemory.
    """
    now("loading data and model")
    own = _own_rows(plan, folder)
    training = _training(plan, folder)
    turns = load_turns(plan, training.user)
    try:
        training.prepare(turns)
        training.refuse_unplanned()
        trainer = training.trainer
        template = profile["template"] or str(facts_of_trainer(trainer, plan).get("chat_template", ""))[:12] or None
        profile = {**profile, "template": template}
        plan, at_once = _in_blocks(plan)

        def answer_range(places: range) -> list[JudgedRow]:
            turns.tally.begin(f"profile {places.start}")
            return evaluate(trainer, plan, training.rows, lambda: None, places)

        _write(plan, own, profile, partial, at_once, answer_range, say, now)
        close_engine(trainer)
    except Exception as problem:
        told_memory = out_of_memory(problem, plan, training.peaks, training.user)
        if told_memory is None:
            raise
        raise told_memory from problem
    finally:
        turns.close()
    return _sums(partial.rows, plan)


def profile_served_rows(
    plan: Plan,
    folder: Path,
    profile: dict[str, Any],
    served: Mapping[str, Any],
    partial: PartialRows,
    say: Say,
    now: Say,
) -> dict[str, Any]:
    """Like profile_rows, with answers from a server. served: its base_url, model and key_variable."""
    if plan.data.images:
        raise Refused.of(
            "a server cannot profile rows with images",
            because="messages are sent to it without their images",
            fix="remove --base-url, so that the recipe's model answers",
        )
    now("loading the data")
    own = _own_rows(plan, folder)
    server = ServedModel(plan, folder, served)
    at_once = max(1, MOST_AT_ONCE // server.samples)
    _write(plan, own, profile, partial, at_once, server.answer_rows, say, now)
    return _sums(partial.rows, plan)


def _own_rows(plan: Plan, folder: Path) -> Any:
    """Returns the rows as loaded. Raises Refused, and Mistake for hub data that cannot be loaded."""
    try:
        own = load_rows(plan.data, "dataset", folder / "own_rows")
    except Mistake:
        raise
    except Exception as problem:
        if plan.data.source != "hub":
            raise
        because = [f"{type(cause).__name__}: {cause}" for cause in causes(problem)][:1]
        fix = "check the data set's id; with HF_HUB_OFFLINE=1 it must be in the hub's cache"
        raise Mistake.of(f"dataset: {plan.data.path} cannot be loaded", because=because, fix=fix) from problem
    _check_columns(own.column_names, own[0])
    return own


def _write(
    plan: Plan,
    own: Any,
    profile: dict[str, Any],
    partial: PartialRows,
    at_once: int,
    answered: Callable[[range], list[JudgedRow]],
    say: Say,
    now: Say,
) -> None:
    """Adds rows with their rates to the partial file, `at_once` at a time, from where it ends."""
    partial.resume(profile[ASKED], at_once, len(own))
    if partial.rows:
        say(f"{len(partial.rows)} of {len(own)} rows were answered before")
    progress = _Progress(len(own), len(partial.rows), say, now)
    for start in range(len(partial.rows), len(own), at_once):
        places = range(start, min(start + at_once, len(own)))
        judged = answered(places)
        rows = [
            {name: value for name, value in own[index].items() if name not in (*RATES, PROFILE)}
            | rate
            | {PROFILE: profile}
            for index, rate in zip(places, rates(judged, plan), strict=True)
        ]
        partial.add(rows, b"".join(_line(row, index) for index, row in zip(places, rows, strict=True)))
        progress.tell(len(partial.rows))


def _training(plan: Plan, folder: Path) -> Training:
    """Returns the plan's training without an evaluation, ready to begin."""
    record = Record(folder, 0)
    record.start(resumed=False)
    return Training(replace(plan, evaluation=None), folder, record, Interruption(), StartPhases(record))


def _in_blocks(plan: Plan) -> tuple[Plan, int]:
    """Returns the plan with the batch that answers a block of rows, and the rows per block.

    A block's rows are always answered together, even after an interruption, because float sums depend on the batch.
    """
    assert plan.evaluation is not None
    of_training, samples = plan.batch.micro_batch * plan.batch.steps_per_generation, plan.evaluation.samples
    is_vllm = plan.evaluation.generated_by == "vllm"
    rows = max(1, (of_training if is_vllm else min(of_training, MOST_AT_ONCE)) // samples)
    return replace(plan, evaluation=replace(plan.evaluation, batch_size=rows * samples)), rows


def _check_columns(columns: list[str], first: Mapping[str, Any]) -> None:
    """Raises Refused for a user's column that a profile would replace."""
    taken = [name for name in (*RATES, PROFILE) if name in columns]
    if taken and not profile_in_row(first):
        raise Refused.of(
            f"dataset: the rows have a column `{taken[0]}`",
            because="a profile writes a column of that name",
            fix="rename the column in the data",
        )


def _line(row: dict[str, Any], index: int) -> bytes:
    try:
        row = with_digest(row, index)
        return (json.dumps(row, ensure_ascii=False, allow_nan=False, default=_text) + "\n").encode()
    except (TypeError, ValueError) as problem:
        raise Refused.of(
            f"dataset: row {index + 1} cannot be written as JSON",
            because=str(problem),
            fix="leave the column out of the data, or write it as text",
        ) from problem


def _text(value: object) -> str:
    if isinstance(value, date | time_of_day):  # includes datetime
        return str(value)
    raise TypeError(f"a value is {type(value).__name__}")


class _Progress:
    """Prints a profile's progress on a line that is replaced, and occasionally on a permanent line."""

    def __init__(self, count: int, done: int, say: Say, now: Say) -> None:
        self._count, self._first, self._said = count, done, done * TOLD_TIMES // count
        self._say, self._now, self._began = say, now, time.monotonic()
        self.tell(done)

    def tell(self, done: int) -> None:
        """Prints the progress. done: rows answered."""
        line = f"{done} of {self._count} rows"
        if self._first < done < self._count:
            left = (time.monotonic() - self._began) / (done - self._first) * (self._count - done)
            line += f", {math.ceil(left)} s left" if left < 100 else f", {math.ceil(left / 60)} minutes left"
        self._now(line)
        if done * TOLD_TIMES // self._count > self._said:
            self._said = done * TOLD_TIMES // self._count
            self._say(line)


def _sums(rows: list[dict[str, Any]], plan: Plan) -> dict[str, Any]:
    """Returns how many rows are never, sometimes and always solved, are not scored, and have equal rewards.

    Raises Refused if none is scored.
    """
    passed = [row["pass_rate"] for row in rows]
    if passed and all(rate is None for rate in passed):
        assert plan.evaluation is not None and plan.evaluation.passes is not None
        name = plan.evaluation.passes.reward
        if any(reward.kind == "judge" and reward.name == name for reward in plan.rewards):
            raise Refused.of(
                f"reward {name} gave no score to at least one answer of each row, so no row has a pass rate",
                because="a row has a pass rate if each of its answers has a score",
                fix="grpo-run preflight shows the judge's answer; raise judge.retries, or change judge.prompt",
            )
        raise Refused.of(
            f"reward {name} returned no number for any answer, so no row has a pass rate",
            because="None and NaN do not count",
            fix="a reward that returns numbers; grpo-run preflight shows the returned values",
        )
    return {
        "rows": len(rows),
        "never": sum(rate == 0 for rate in passed),
        "always": sum(rate == 1 for rate in passed),
        "between": sum(rate is not None and 0 < rate < 1 for rate in passed),
        "not_judged": passed.count(None),
        "equal_rewards": sum(row["reward_std"] == 0 for row in rows),
    }
