"""Judges a finished run in one line each: first its held-out rows, then its training.

Only changes beyond noise count: on held-out rows the interval must not contain 0, and in training the first and last
steps must be three standard errors apart. The error accounts for correlation between steps.
tests/contract/test_run_verdict.py has a run for each verdict.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from grpo_recipes.contract.metric_names import CLIPPED_RATIO, ENTROPY, GROUPS_WITHOUT_VARIANCE, MEAN_LENGTH
from grpo_recipes.contract.metrics import (
    REWARDS,
    Event,
    change_text,
    constant_rewards,
    figure,
    figures_of,
    is_at_best,
    is_mean_of_reward,
    left_out_text,
    mapping,
    mappings,
    missing_rewards,
    number,
    right_text,
)
from grpo_recipes.contract.run_record import WARM_START, RunRecord, of_each_set
from grpo_recipes.contract.student_t import critical_t

ERRORS, LEAST_CHANGE = 3.0, 0.01
"""The number of standard errors, and the relative size, that a change must exceed."""
LONGER, LONGER_BY = 1.5, 10
"""The factor, and the number of tokens, by which completions count as longer."""
LEAST_ROWS = 8
"""With fewer held-out rows an interval excludes 0 by chance too often: with two rows in every other run."""
_UNCOUNTED = 20  # evaluations, if a run folder does not say from how many its step was chosen
# The model card is written before the run ends.
_HANDS_OVER = ("running", "completed")

Level = Literal["good", "note", "warning"]


class RunVerdict(NamedTuple):
    """One conclusion about a run. text: a line, whose part before the first colon is short enough for a table."""

    id: str
    level: Level
    text: str
    because: tuple[str, ...] = ()
    fix: str = ""

    @property
    def word(self) -> str:
        """The short form of the text."""
        return self.text.partition(":")[0]


class _Change(NamedTuple):
    """A figure on held-out rows: its value, its change since step 0, the change's interval, and the required one."""

    name: str
    now: float
    by: float
    ends: tuple[float, float]
    needed: tuple[float, float]

    @property
    def way(self) -> int:
        """1 if it rose beyond noise, -1 if it fell, else 0."""
        return (self.needed[0] > 0) - (self.needed[1] < 0)

    @property
    def text(self) -> str:
        return f"{self.name} {self.now - self.by:.4g} -> {self.now:.4g}, {figure(self.by, self.ends, '+.3g')}"


def verdicts(record: RunRecord) -> list[RunVerdict]:
    """The conclusions about a run that produced a model, most important first; [] if nothing was measured."""
    if record.final_step is None or not record.step or record.status not in _HANDS_OVER:
        return []
    main = [*_of_held_out(record)] or [*_of_training(record)]
    if [verdict.id for verdict in main] in (["VRD002"], ["VRD009"]):
        main = [*_of_nothing(record)] or main
    is_better = any(verdict.id == "VRD001" for verdict in main)
    of_constants = [] if [verdict.id for verdict in main] == ["VRD011"] else _of_constants(record)
    return [*main, *_of_phases(record), *_of_images(record), *_of_drift(record, is_better=is_better), *of_constants]


def _of_nothing(record: RunRecord) -> Iterator[RunVerdict]:
    """A training from which nothing could be learned."""
    same = mapping(record.trend, GROUPS_WITHOUT_VARIANCE)
    if (number(same, "first"), number(same, "last"), number(same, "error")) == (1, 1, 0):
        message = f"nothing was trained: no group of any step had two rewards; mean {_change_text(record, 'reward')}"
        fix = "grpo-run preflight RECIPE tries the rewards, grpo-run profile RECIPE shows what the model can answer"
        yield RunVerdict("VRD011", "warning", message, (), fix)


def _of_constants(record: RunRecord) -> Iterator[RunVerdict]:
    """Rewards that never varied, among others."""
    if text := ", ".join([*constant_rewards(record.trend), *missing_rewards(record.trend)]):
        because = "a score that stays 0 was never earned, a penalty that stays 0 was never incurred"
        fix = "grpo-run preflight RECIPE shows what each reward gives to right and to wrong answers"
        yield RunVerdict("VRD012", "note", f"never varied: {text} for every completion of every step", (because,), fix)


def _of_held_out(record: RunRecord) -> Iterator[RunVerdict]:
    """The deciding set is judged first; of the others, only changes are reported."""
    for index, (name, known) in enumerate(of_each_set(record.evaluation)):
        yield from _of_set(record, f" on {name}" if name else "", known, decides=index == 0)


def _of_set(record: RunRecord, on: str, known: Mapping[str, object], *, decides: bool) -> Iterator[RunVerdict]:
    before = mapping(known, "before")
    is_of_best = record.final_step is not None and record.final_step < (record.step or 0)
    now, best = (mapping(known, "best" if is_of_best else "after"), mapping(known, "best"))
    is_chosen = decides and number(best, "step") == record.final_step
    rows = number(now, "count")
    is_few = rows is not None and rows < LEAST_ROWS
    wider = _widening(known, rows) if is_chosen else 1.0
    changes = _changes(now, math.inf if is_few else wider)
    main = changes.get("pass@1") or changes.get("reward")
    if main is None:
        return
    rewards = {name: change for name, change in changes.items() if name != "reward" and not name.startswith("pass@")}
    rose, fell = ([reward for reward in rewards.values() if reward.way == way] for way in (1, -1))
    if not decides and main.way == 0:  # contradicting rewards are reported below
        moved = (
            change for change in changes.values() if change.way and (change.name == "reward" or not (rose and fell))
        )
        main = next(moved, main)
    left_out = [text.removeprefix(", ")] if (text := left_out_text(now)) else []
    if main.way < 0:
        lines = [*left_out, *(f"{reward.name} rose by {reward.by:.3g}" for reward in rose)]
        fix = f"look at the completions in grpo-run report RUNDIR; {_nearer(record)}"
        yield RunVerdict("VRD003", "warning", f"worse than before{on}: {main.text}", tuple(lines), fix)
    elif main.way > 0:
        lines = [*left_out, *(_choice(known) if is_chosen else ())]
        yield RunVerdict("VRD001", "good", f"better than before{on}: {main.text}", tuple(lines))
    elif decides and is_at_best(before):
        text = f"already at its best before training{on}: {right_text(before)} were right"
        yield RunVerdict("VRD004", "warning", text, (), "train and evaluate on rows that the model cannot answer yet")
    elif decides:
        doubts = [*left_out, *([f"fewer than {LEAST_ROWS} rows cannot show a change"] if is_few else [])]
        doubts += [f"the step was chosen by these rows: {wider:.2g} times this interval must exclude 0"] * is_chosen
        yield _verdict_without_change(record, on, main, doubts)
    if rose and fell:
        text = ", ".join(f"{reward.name} {reward.by:+.3g}" for reward in (*rose, *fell))
        fix = "change the weights of the rewards, or leave one out"
        level: Level = "note" if main.way > 0 else "warning"
        yield RunVerdict("VRD008", level, f"rewards contradict each other{on}: {text} on held-out rows", (), fix)


def _widening(known: Mapping[str, object], rows: float | None) -> float:
    """The factor by which an interval is widened if its figure chose the step, by Bonferroni and Student's t."""
    steps = known.get("chosen_from")
    evaluations = len(steps) if isinstance(steps, list) and steps else _UNCOUNTED
    return critical_t(0.05 / evaluations, int(rows or 2) - 1) / 1.96  # by which the normal interval is wide


def _choice(known: Mapping[str, object]) -> Iterator[str]:
    """What the same choice gains on rows that did not choose."""
    apart = mapping(known, "cross_validated")
    if (text := change_text(apart)) is not None:
        yield f"the step was chosen by these rows; change on rows that did not choose it: {text}"


def _changes(event: Event, wider: float) -> dict[str, _Change]:
    """Each figure of an evaluation with an interval of its change since step 0. wider: factor for the required
    interval.
    """
    now = {name: value for name, value, _ in figures_of(event)}
    return {
        name: _Change(name, now[name], by, ends, (by - wider * abs(by - ends[0]), by + wider * abs(ends[1] - by)))
        for name, by, ends in figures_of(mapping(event, "change"))
        if ends is not None and name in now
    }


def _of_images(record: RunRecord) -> Iterator[RunVerdict]:
    """Held-out rows that are as often right with grey images."""
    for name, known in of_each_set(record.evaluation):
        blanked = mapping(known, "blanked")  # of the rows with images
        grey = {key: value for key, value, _ in figures_of(blanked)}
        by = {key: (value, ends) for key, value, ends in figures_of(mapping(blanked, "by_images")) if key in grey}
        main = "pass@1" if "pass@1" in by else "reward"
        value, ends = by.get(main, (0.0, None))
        if ends is None or ends[0] > 0 or (number(blanked, "count") or 0) < LEAST_ROWS:
            continue
        text = f"no sign that the model uses the images{f' of {name}' if name else ''}: {main} "
        text += f"{grey[main] + value:.4g} with them, {grey[main]:.4g} with grey ones, {figure(value, ends, '+.3g')}"
        fix = "train and evaluate on rows that only the image answers, or on more rows"
        yield RunVerdict("VRD010", "warning", text, (), fix)


def _of_phases(record: RunRecord) -> Iterator[RunVerdict]:
    """What the warm start and what GRPO brought on held-out rows."""
    for name, known in of_each_set(record.evaluation):
        end = "best" if record.final_step is not None and record.final_step < (record.step or 0) else "after"
        parts, phases = [], {"warm start": (WARM_START, "change"), "GRPO": (end, "change_since_warm_start")}
        for phase, (moment, change) in phases.items():
            by = {key: (value, ends) for key, value, ends in figures_of(mapping(mapping(known, moment), change))}
            main = "pass@1" if "pass@1" in by else "reward"
            if main in by:
                parts.append(f"{phase} {figure(by[main][0], by[main][1], '+.3g')}")
        if parts and record.final_step == 0:
            parts.append("GRPO nothing better, so final/ has the model of the warm start")
        if parts:
            yield RunVerdict("VRD013", "note", f"by phase{f' on {name}' if name else ''}: {main} {', '.join(parts)}")


def _verdict_without_change(record: RunRecord, on: str, main: _Change, doubts: Sequence[str]) -> RunVerdict:
    """No held-out change. Only the training counts if the interval excludes its gain."""
    first, last = _ends(record, "reward")
    rose = _way(record, "reward") > 0
    if rose and main.needed[1] < last - first:
        rewards = [name for name in record.trend if is_mean_of_reward(name) and _way(record, name) > 0]
        lines = [
            f"{name.removeprefix(REWARDS).removesuffix('/mean')}: {_change_text(record, name)}" for name in rewards
        ]
        text = f"training reward up, held out flat{on}: {_change_text(record, 'reward')} in training, {main.text}"
        fix = "grpo-run report RUNDIR shows the best-rewarded completions; more held-out rows show smaller gains"
        return RunVerdict("VRD005", "warning", text, tuple(lines), fix)
    half = (main.ends[1] - main.ends[0]) / 2
    lines = [
        *doubts,
        *([f"these rows can show changes of about {half:.2g} or more"] if half > 0 and not doubts else []),
    ]
    lines += [f"training reward {first:.4g} -> {last:.4g}: these rows cannot show whether it carries over"] * rose
    text = f"no held-out change{on}: {main.text}"
    fix = "train longer, with a higher learning rate, or hold out more"
    if (truncated := number(record.metrics, CLIPPED_RATIO) or 0.0) > 0.5:
        fix = f"a larger generation.max_completion_length: {truncated:.0%} of the last completions were truncated"
    return RunVerdict("VRD002", "warning", text, tuple(lines), fix)


def _of_training(record: RunRecord) -> Iterator[RunVerdict]:
    """What the training reward did, if no held-out change is known."""
    if any(number(mapping(record.trend, "reward"), key) is None for key in ("first", "last", "error")):
        return
    lacks = "no change of held-out rows is known" if record.evaluation else "nothing was held out"
    if any("without_score" in mapping(record.evaluation, moment) for moment in ("before", "after", "best")):
        lacks += ", since a judge gave no score to some completions"
    steps = number(mapping(record.trend, "reward"), "steps")
    means = "" if steps is None else f" (means of {steps:.0f} steps)"
    way, moved = _way(record, "reward"), f"reward {_change_text(record, 'reward')}{means}, {lacks}"
    text = {1: "training reward up", 0: "no clear change in training", -1: "training reward down"}[way]
    fix = (
        "" if way > 0 else "grpo-run report RUNDIR shows the rewards; only a reward that varies within a group teaches"
    )
    yield RunVerdict("VRD009", "note" if way > 0 else "warning", f"{text}: {moved}", (), fix)


def _of_drift(record: RunRecord, *, is_better: bool) -> Iterator[RunVerdict]:
    """Completions that got longer, and a policy that drifted far, without a gain."""
    if is_better or _way(record, "reward") > 0:
        return
    first, last = _ends(record, MEAN_LENGTH)
    if _way(record, MEAN_LENGTH) > 0 and last >= max(LONGER * first, first + LONGER_BY):
        text = f"longer without reward: {first:.0f} -> {last:.0f} tokens per completion"
        yield RunVerdict(
            "VRD006", "warning", text, (), "rewards: soft_overlong_punishment, or a lower max_completion_length"
        )
    spoke = {str(guard.get("name")) for guard in mappings(record.guards) if guard.get("action") == "warn"}
    first, last = _ends(record, ENTROPY)
    is_wild = _way(record, ENTROPY) > 0 and last > 2 * first and last > first + 1
    names = {"entropy_collapse": "entropy collapsed", "kl_rise": "KL to the start rose"}
    reasons = [words for name, words in names.items() if name in spoke]
    if reasons or is_wild:
        reasons += [f"entropy {first:.2g} -> {last:.2g} nats per token"] if is_wild else []
        text = f"drifted far from its start: {', '.join(reasons)}"
        yield RunVerdict("VRD007", "warning", text, (), _nearer(record))


def _nearer(record: RunRecord) -> str:
    """How a policy stays nearer to its start; grpo.beta above 0 cannot be combined with a warm start."""
    other = "a larger grpo.beta" if record.warm_start is None else "a shorter warm_start"
    return f"a smaller training.learning_rate, or {other}"


def _ends(record: RunRecord, name: str) -> tuple[float, float]:
    """First and last value of a training figure, 0 and 0 if unknown."""
    trend = mapping(record.trend, name)
    return number(trend, "first") or 0.0, number(trend, "last") or 0.0


def _way(record: RunRecord, name: str) -> int:
    """1 if a training figure rose beyond noise, -1 if it fell, else 0."""
    first, last = _ends(record, name)
    error = number(mapping(record.trend, name), "error")
    least = max(ERRORS * (error or 0.0), LEAST_CHANGE * max(abs(first), abs(last)))
    return 0 if error is None or abs(last - first) <= least else 1 if last > first else -1


def _change_text(record: RunRecord, name: str) -> str:
    return "{:.4g} -> {:.4g}".format(*_ends(record, name))
