"""Judges a finished run in one line each: first its held-out rows, then its training.

Only changes beyond noise count: on held-out rows the interval must not contain 0, and in training the first and last
steps must be three standard errors apart. The error accounts for correlation between steps.
tests/contract/test_run_verdict.py has a run for each verdict.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from grpo_recipes.contract.metric_names import ENTROPY, GROUPS_WITHOUT_VARIANCE, MEAN_LENGTH
from grpo_recipes.contract.metrics import (
    REWARDS,
    Event,
    figure,
    figures_of,
    is_mean_of_reward,
    mapping,
    mappings,
    number,
)
from grpo_recipes.contract.run_record import RunRecord, of_each_set

MEANINGS = {
    "VRD001": "Better than before: the held-out figure rose, and its interval excludes 0.",
    "VRD002": "No held-out change: its interval contains 0. More held-out rows make it narrower; more steps or easier"
    " prompts make the change larger. Fewer than 8 rows cannot show a change, and if `keep_best` chose the step by"
    " these rows, 1.5 times the interval must exclude 0.",
    "VRD003": "Worse than before: the held-out figure fell, and its interval excludes 0. The rewards may favour"
    " something other than what they should teach, or the learning rate is too high.",
    "VRD004": "Already at its best before training: at step 0 every reward of each held-out row was 1, or 99.5 % of the"
    " completions passed, so no training could show a gain. Harder rows can.",
    "VRD005": "The training reward rose and the held-out figure did not, and its interval excludes such a rise:"
    " the model learned the training rows, or an answer that is rewarded without solving the task. The completions"
    " with the highest rewards show which.",
    "VRD006": "Completions grew by half, and the training reward did not rise: the model learned to write"
    " more. A limit, an overlong penalty or a length reward ends that.",
    "VRD007": "The policy drifted far from its start: entropy or KL left the range of its guard, or entropy more than"
    " doubled without reward. A smaller learning rate or a larger beta keeps it near.",
    "VRD008": "Rewards contradict each other: on the same rows one rose and a different one fell, both beyond noise."
    " Their weights decide which one wins.",
    "VRD009": "There is no held-out score both before and after training, so only the training reward is known: it"
    " rose, fell, or did not change beyond noise. `evaluation` with `at_start` and held-out rows would show more.",
    "VRD010": "No sign that the model uses its images: with grey images it is right as often, as far as the"
    " held-out rows show. They can be answered without images, or the model learned nothing that it reads from them.",
    "VRD011": "Nothing was trained: in no step did two completions of a group have different rewards, and GRPO only"
    " learns from such differences. The task is too hard or too easy for the model, or a reward is always the same.",
}
BEST = 0.995
"""The share of right rows above which nothing is left to gain."""
ERRORS, LEAST_CHANGE = 3.0, 0.01
"""The number of standard errors, and the relative size, that a change must exceed."""
LONGER, LONGER_BY = 1.5, 10
"""The factor, and the number of tokens, by which completions count as longer."""
LEAST_ROWS = 8
"""With fewer held-out rows an interval excludes 0 by chance too often: with two rows in every other run."""
CHOSEN = 1.5
"""The factor by which an interval is widened if its figure chose the step.

The interval of the best of 20 evaluations that gained nothing excludes 0 in 22 % of runs, this wider one in 2 %.
"""
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


def is_at_best(evaluation: Mapping[str, object]) -> bool:
    """Whether an evaluation leaves nothing to gain: all completions pass, or every reward of each row is 1."""
    if (passed := number(mapping(evaluation, "pass_at"), "1")) is not None:
        return passed >= BEST
    # A mean of 1 means that all are right only if no row has more or less.
    rewards = [found for found in figures_of(evaluation) if found[0] in mapping(evaluation, "rewards")]
    return bool(rewards) and all(value == 1 and ends == (1, 1) for _, value, ends in rewards)


def right_text(evaluation: Mapping[str, object]) -> str:
    """What is right in an evaluation at its best: "all 200 held-out rows"."""
    rows, passed = number(evaluation, "count"), number(mapping(evaluation, "pass_at"), "1")
    of = "held-out rows" if rows is None else f"{rows:.0f} held-out rows"
    return f"all {of}" if passed in (None, 1) else f"{passed:.1%} of the completions of {of}"


def verdicts(record: RunRecord) -> list[RunVerdict]:
    """The conclusions about a run that produced a model, most important first; [] if nothing was measured."""
    if record.final_step is None or not record.step or record.status not in _HANDS_OVER:
        return []
    found = [*_of_held_out(record)] or [*_of_training(record)]
    if [one.id for one in found] in (["VRD002"], ["VRD009"]):
        found = [*_of_nothing(record)] or found
    is_better = any(one.id == "VRD001" for one in found)
    return [*found, *_of_images(record), *_of_drift(record, is_better=is_better)]


def _of_nothing(record: RunRecord) -> Iterator[RunVerdict]:
    """A training from which nothing could be learned."""
    same = mapping(record.trend, GROUPS_WITHOUT_VARIANCE)
    if (number(same, "first"), number(same, "last"), number(same, "error")) == (1, 1, 0):
        told = f"nothing was trained: no group of any step had two rewards; mean {_moved(record, 'reward')}"
        fix = "grpo-run preflight RECIPE tries the rewards, grpo-run profile RECIPE shows what the model can answer"
        yield RunVerdict("VRD011", "warning", told, (), fix)


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
    changes = _changes(now, math.inf if is_few else CHOSEN if is_chosen else 1.0)
    main = changes.get("pass@1") or changes.get("reward")
    if main is None:
        return
    rewards = {name: one for name, one in changes.items() if name != "reward" and not name.startswith("pass@")}
    rose, fell = ([reward for reward in rewards.values() if reward.way == way] for way in (1, -1))
    if not decides and main.way == 0:  # contradicting rewards are reported below
        moved = (
            change for change in changes.values() if change.way and (change.name == "reward" or not (rose and fell))
        )
        main = next(moved, main)
    if main.way < 0:
        lines = [f"{one.name} rose by {one.by:.3g}" for one in rose]
        fix = "look at the completions in grpo-run report RUNDIR; use a smaller learning rate, or a larger grpo.beta"
        yield RunVerdict("VRD003", "warning", f"worse than before{on}: {main.text}", tuple(lines), fix)
    elif main.way > 0:
        yield RunVerdict("VRD001", "good", f"better than before{on}: {main.text}")
    elif decides and is_at_best(before):
        told = f"already at its best before training{on}: {right_text(before)} were right"
        yield RunVerdict("VRD004", "warning", told, (), "train and evaluate on rows that the model cannot answer yet")
    elif decides:
        doubts = [f"fewer than {LEAST_ROWS} rows cannot show a change"] if is_few else []
        doubts += [f"the step was chosen by these rows: {CHOSEN:g} times this interval must exclude 0"] * is_chosen
        yield _unchanged(record, on, main, doubts)
    if rose and fell:
        told = ", ".join(f"{one.name} {one.by:+.3g}" for one in (*rose, *fell))
        fix = "change the weights of the rewards, or leave one out"
        level: Level = "note" if main.way > 0 else "warning"
        yield RunVerdict("VRD008", level, f"rewards contradict each other{on}: {told} on held-out rows", (), fix)


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
        grey = {one: value for one, value, _ in figures_of(blanked)}
        by = {one: (value, ends) for one, value, ends in figures_of(mapping(blanked, "by_images")) if one in grey}
        main = "pass@1" if "pass@1" in by else "reward"
        value, ends = by.get(main, (0.0, None))
        if ends is None or ends[0] > 0 or (number(blanked, "count") or 0) < LEAST_ROWS:
            continue
        told = f"no sign that the model uses the images{f' of {name}' if name else ''}: {main} "
        told += f"{grey[main] + value:.4g} with them, {grey[main]:.4g} with grey ones, {figure(value, ends, '+.3g')}"
        fix = "train and evaluate on rows that only the image answers, or on more rows"
        yield RunVerdict("VRD010", "warning", told, (), fix)


def _unchanged(record: RunRecord, on: str, main: _Change, doubts: Sequence[str]) -> RunVerdict:
    """No held-out change. Only the training counts if the interval excludes its gain."""
    first, last = _ends(record, "reward")
    rose = _way(record, "reward") > 0
    if rose and main.needed[1] < last - first:
        rewards = [name for name in record.trend if is_mean_of_reward(name) and _way(record, name) > 0]
        lines = [f"{name.removeprefix(REWARDS).removesuffix('/mean')}: {_moved(record, name)}" for name in rewards]
        told = f"training reward up, held out flat{on}: {_moved(record, 'reward')} in training, {main.text}"
        fix = "grpo-run report RUNDIR shows the best-rewarded completions; more held-out rows show smaller gains"
        return RunVerdict("VRD005", "warning", told, tuple(lines), fix)
    half = (main.ends[1] - main.ends[0]) / 2
    lines = [
        *doubts,
        *([f"these rows can show changes of about {half:.2g} or more"] if half > 0 and not doubts else []),
    ]
    lines += [f"training reward {first:.4g} -> {last:.4g}: these rows cannot show whether it carries over"] * rose
    told = f"no held-out change{on}: {main.text}"
    return RunVerdict(
        "VRD002", "warning", told, tuple(lines), "train longer, with a higher learning rate, or hold out more"
    )


def _of_training(record: RunRecord) -> Iterator[RunVerdict]:
    """What the training reward did, if no held-out change is known."""
    if any(number(mapping(record.trend, "reward"), key) is None for key in ("first", "last", "error")):
        return
    lacks = "no change of held-out rows is known" if record.evaluation else "nothing was held out"
    if any("without_score" in mapping(record.evaluation, moment) for moment in ("before", "after", "best")):
        lacks += ", since a judge gave no score to some completions"
    steps = number(mapping(record.trend, "reward"), "steps")
    means = "" if steps is None else f" (means of {steps:.0f} steps)"
    way, moved = _way(record, "reward"), f"reward {_moved(record, 'reward')}{means}, {lacks}"
    told = {1: "training reward up", 0: "no clear change in training", -1: "training reward down"}[way]
    fix = (
        "" if way > 0 else "grpo-run report RUNDIR shows the rewards; only a reward that varies within a group teaches"
    )
    yield RunVerdict("VRD009", "note" if way > 0 else "warning", f"{told}: {moved}", (), fix)


def _of_drift(record: RunRecord, *, is_better: bool) -> Iterator[RunVerdict]:
    """Completions that got longer, and a policy that drifted far, without a gain."""
    if is_better or _way(record, "reward") > 0:
        return
    first, last = _ends(record, MEAN_LENGTH)
    if _way(record, MEAN_LENGTH) > 0 and last >= max(LONGER * first, first + LONGER_BY):
        told = f"longer without reward: {first:.0f} -> {last:.0f} tokens per completion"
        yield RunVerdict(
            "VRD006", "warning", told, (), "rewards: soft_overlong_punishment, or a lower max_completion_length"
        )
    spoke = {str(guard.get("name")) for guard in mappings(record.guards) if guard.get("action") == "warn"}
    first, last = _ends(record, ENTROPY)
    is_wild = _way(record, ENTROPY) > 0 and last > 2 * first and last > first + 1
    names = {"entropy_collapse": "entropy collapsed", "kl_rise": "KL to the start rose"}
    reasons = [words for name, words in names.items() if name in spoke]
    if reasons or is_wild:
        reasons += [f"entropy {first:.2g} -> {last:.2g} nats per token"] if is_wild else []
        told = f"drifted far from its start: {', '.join(reasons)}"
        yield RunVerdict("VRD007", "warning", told, (), "a smaller training.learning_rate, or a larger grpo.beta")


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


def _moved(record: RunRecord, name: str) -> str:
    return "{:.4g} -> {:.4g}".format(*_ends(record, name))
