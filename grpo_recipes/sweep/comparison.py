"""Compares the settings of a sweep: their means, and which differences exceed noise."""

import itertools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from grpo_recipes.contract.files.bounded_json import parse_json
from grpo_recipes.contract.files.folder_files import read_bytes
from grpo_recipes.contract.integrity.run_folder import PLAN_FILE
from grpo_recipes.contract.metrics import METRICS_FILE, mapping, number, read_all, reward_as_drawn
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.read_plan import from_json
from grpo_recipes.contract.run_record import RunRecord, deciding_set, evaluation_file, read_record
from grpo_recipes.lock.read_lock import LARGEST_PLAN_BYTES
from grpo_recipes.report.runs.run_row import one_run
from grpo_recipes.rewards.ranges import range_of_sum
from grpo_recipes.sweep.sweep_file import Sweep, SweepRun, setting_text
from grpo_recipes.sweep.variations import Trial
from grpo_recipes.sweep.verdicts import Sample, SettingDifference, Verdict, difference, mean_interval, verdicts

HELD_OUT = "held-out reward after the last step"
TRAINING = "mean training reward of the last tenth of the steps"
_SHARE = 10
_LARGEST_ROWS = 64 << 20


class SweptRun(NamedTuple):
    """The state of a sweep's run. status: as in `grpo-run runs`, "missing" if its folder is gone.

    because: ids of the findings that ended it. verdict: what a completed one means, in a few words. sample: of a
    completed one, None if its outcome is unknown.
    """

    run: SweepRun
    status: str
    because: tuple[str, ...]
    verdict: str
    sample: Sample | None


def _outcomes(folder: Path, sweep: Sweep) -> tuple[str | None, list[SweptRun]]:
    """The outcome's name, the same for all runs, None until one has completed; and the state of each run."""
    standings = {run: _standing(folder / run.name) for run in sweep.runs}
    records = {run: read_record(str(folder / run.name)) for run in sweep.runs if standings[run][0] == "completed"}
    is_held_out = bool(records) and all(
        record and _evaluation_reward(record) is not None for record in records.values()
    )
    fewest = min((_unrewarded(record) for record in records.values() if record is not None), default=0.0)
    samples = {
        run: _evaluation_sample(folder / run.name, record, fewest)
        if is_held_out
        else _training_sample(folder / run.name, record)
        for run, record in records.items()
        if record is not None
    }
    of_sets = {deciding_set(record.evaluation) for record in records.values() if record is not None} - {""}
    held_out = f"{HELD_OUT}, of {' or '.join(sorted(of_sets))}" if of_sets else HELD_OUT
    measure = held_out if is_held_out else TRAINING if any(samples.values()) else None
    return measure, [SweptRun(run, *standings[run], samples.get(run)) for run in sweep.runs]


def _standing(folder: Path) -> tuple[str, tuple[str, ...], str]:
    try:
        run = one_run(folder)
    except OSError as problem:
        return "missing", (str(problem.strerror or problem),), ""
    return ("missing", (), "") if run is None else (run.status, run.because, run.verdict.partition(":")[0])


def _evaluation_reward(record: RunRecord) -> float | None:
    return number(mapping(record.evaluation, "after"), "reward")


def _unrewarded(record: RunRecord) -> float:
    return number(mapping(record.evaluation, "after"), "without_reward") or 0.0


def _evaluation_sample(folder: Path, record: RunRecord, fewest: float) -> Sample | None:
    """None if the mean is over fewer rows than those of other runs: a judge left completions without a score, or more
    than the fewest of all runs have no reward.
    """
    reward = _evaluation_reward(record)
    assert reward is not None
    if "without_score" in mapping(record.evaluation, "after") or _unrewarded(record) > fewest:
        return None
    rows = _rows(folder, deciding_set(record.evaluation), number(mapping(record.evaluation, "after"), "step"))
    known = [reward for reward in rows if reward is not None]
    agrees = bool(known) and math.isclose(math.fsum(known) / len(known), reward, rel_tol=1e-6, abs_tol=1e-9)
    return Sample(reward, rows if agrees else ())


def _rows(folder: Path, name: str, step: float | None) -> tuple[float | None, ...]:
    """The mean reward of each held-out row over its completions, summed as its evaluation does; () if unknown.

    None for a row without any reward. name: of the set.
    """
    if step is None:
        return ()
    plan = _plan(folder)
    if plan is None:
        return ()
    weights = {reward.name: reward.weight for reward in plan.rewards}
    try:
        lines = read_bytes(folder, evaluation_file(name, step), _LARGEST_ROWS).splitlines()
        totals: dict[int, list[float]] = {}
        for line in lines:
            completion = cast("dict[str, Any]", parse_json(line))
            scores = {name: float(score) for name, score in completion["rewards"].items() if score is not None}
            of_row = totals.setdefault(int(completion["row"]), [])
            if scores:
                of_row.append(math.fsum(weights.get(name, 1.0) * score for name, score in scores.items()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()
    return tuple(math.fsum(totals[row]) / len(totals[row]) if totals[row] else None for row in sorted(totals))


def _plan(folder: Path) -> Plan | None:
    """None if its file is gone or damaged."""
    try:
        return from_json(read_bytes(folder, PLAN_FILE, LARGEST_PLAN_BYTES).decode())
    except (OSError, ValueError):
        return None


def _training_sample(folder: Path, record: RunRecord) -> Sample | None:
    """The mean over the last tenth of the steps with a reward, at least one of them."""
    events = read_all(str(folder / METRICS_FILE))
    # A resumed run also has the events of earlier attempts; the last one of a step counts.
    by_step = {
        step: reward
        for event in events
        if event.get("event") == "step"
        and (step := number(event, "step")) is not None
        and (reward := reward_as_drawn(event)) is not None
    }
    if not by_step:
        return None
    last = max(by_step)
    rewards = [reward for step, reward in by_step.items() if step > last - last / _SHARE] or [by_step[last]]
    return Sample(math.fsum(rewards) / len(rewards))


class SweptSetting(NamedTuple):
    """A setting with its runs. mean, spread: of the available outcomes; spread is their standard deviation.

    interval: of the mean, None for a single outcome. to_best, to_base: the difference to the best setting and to the
    unchanged recipe; None for that setting itself, and if either lacks an outcome.
    """

    trial: Trial
    runs: tuple[SweptRun, ...]
    mean: float | None
    spread: float | None
    interval: tuple[float, float] | None
    is_best: bool
    is_base: bool
    to_best: Verdict | None
    to_base: Verdict | None

    @property
    def samples(self) -> dict[int, Sample]:
        """The samples of its runs, by seed."""
        return {swept.run.seed: swept.sample for swept in self.runs if swept.sample is not None}

    @property
    def is_whole(self) -> bool:
        """Whether each of its runs has an outcome; otherwise it is not compared."""
        return len(self.samples) == len(self.runs)


class SweepComparison(NamedTuple):
    """The comparison of a sweep. measure: the outcome's name. rows: held-out rows whose noise is in each test, 0 for
    none. pairs: their number.
    """

    folder: str
    sweep: Sweep
    measure: str | None
    settings: tuple[SweptSetting, ...]
    rows: int
    pairs: int


def compare_settings(folder: str, sweep: Sweep) -> SweepComparison:
    """The comparison of all settings, with the runs that have ended so far. Writes nothing."""
    measure, runs = _outcomes(Path(folder), sweep)
    limits = [_limits(Path(folder) / run.name) for run in sweep.runs]
    ends = min(low for low, _ in limits), max(high for _, high in limits)
    settings = [_setting(index, sweep, runs, ends) for index in range(len(sweep.settings))]
    whole = [index for index, setting in enumerate(settings) if setting.is_whole]
    best = max(whole, key=lambda index: settings[index].mean or 0.0, default=None)
    # The best setting is only known from these outcomes, so any pair could have been compared.
    pairs = list(itertools.combinations(whole, 2))
    of_pairs = verdicts([difference(settings[first].samples, settings[other].samples) for first, other in pairs])
    to_best = {
        first if other == best else other: verdict if other == best else _reverse(verdict)
        for (first, other), verdict in zip(pairs, of_pairs, strict=True)
        if best in (first, other)
    }
    to_base = _to_base(settings, whole, sweep.base)
    settings = [
        setting._replace(is_best=index == best, to_best=to_best.get(index), to_base=to_base.get(index))
        for index, setting in enumerate(settings)
    ]
    rows = min((verdict.difference.rows for verdict in of_pairs), default=0)
    return SweepComparison(folder, sweep, measure, tuple(settings), rows, len(pairs))


def _limits(folder: Path) -> tuple[float, float]:
    """The lowest and highest outcome that the rewards of a run allow, infinite if one has no known limits."""
    plan = _plan(folder)
    if plan is None:
        return -math.inf, math.inf
    return range_of_sum(plan, () if plan.evaluation is None else plan.evaluation.rewards)


def _setting(index: int, sweep: Sweep, all_runs: Sequence[SweptRun], limits: tuple[float, float]) -> SweptSetting:
    runs = tuple(swept for swept in all_runs if swept.run.setting == index)
    values = [swept.sample.outcome for swept in runs if swept.sample is not None]
    mean = math.fsum(values) / len(values) if values else None
    spread = statistics.stdev(values) if len(values) > 1 else None
    interval = mean_interval(values, limits)
    return SweptSetting(sweep.settings[index], runs, mean, spread, interval, False, index == sweep.base, None, None)


def _to_base(settings: Sequence[SweptSetting], whole: Sequence[int], base: int | None) -> dict[int, Verdict]:
    """The verdicts on the differences to the unchanged recipe, which was chosen before anything ran."""
    if base is None or base not in whole:
        return {}
    others = [index for index in whole if index != base]
    against_base = verdicts([difference(settings[index].samples, settings[base].samples) for index in others])
    return dict(zip(others, against_base, strict=True))


def _reverse(verdict: Verdict) -> Verdict:
    """The verdict with the two settings swapped."""
    turned: SettingDifference = verdict.difference._replace(mean=0.0 - verdict.difference.mean)
    return verdict._replace(difference=turned)


def conclusion(comparison: SweepComparison) -> list[str]:
    """The conclusions about the sweep, one sentence each."""
    lines = []
    for setting in comparison.settings:
        if not setting.is_whole:
            missing = [swept for swept in setting.runs if swept.sample is None]
            states = ", ".join(dict.fromkeys(_state(swept, comparison.measure) for swept in missing))
            lines.append(
                f"{setting_text(setting.trial)} is not compared: {len(missing)} of its {len(setting.runs)} runs"
                f" ha{'s' if len(missing) == 1 else 've'} no outcome ({states})"
            )
    best = next((setting for setting in comparison.settings if setting.is_best), None)
    against = [setting for setting in comparison.settings if setting.to_best is not None]
    if best is None or not against:
        return lines
    seeds = len(best.runs)
    if seeds == 1:
        return [*lines, "one seed cannot tell a difference from noise; use at least --seeds 3"]
    if not any(setting.to_best and setting.to_best.is_told for setting in against):
        same = ": the settings have the same mean" if all(setting.mean == best.mean for setting in against) else ""
        return [*lines, f"no difference exceeds noise with {seeds} seeds{same}"]
    open_ones = [setting_text(setting.trial) for setting in against if setting.to_best and not setting.to_best.is_told]
    ahead = f"{setting_text(best.trial)} is the best"
    if open_ones:
        return [*lines, f"{ahead}; with {seeds} seeds no difference exceeds noise for {', '.join(open_ones)}"]
    return [*lines, f"{ahead}, and its difference to each other setting exceeds noise"]


def _state(swept: SweptRun, measure: str | None) -> str:
    if swept.status == "completed" and measure not in (None, TRAINING):
        return "completed, with completions that have no judge's score or no reward"
    return f"{swept.status}{f' {swept.because[0]}' if swept.because and swept.status == 'stopped' else ''}"
