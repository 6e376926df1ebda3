"""Compares the settings of a sweep: their means, and which differences exceed noise."""

import itertools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from grpo_recipes.contract.files.bounded_json import parsed, read_json
from grpo_recipes.contract.files.folder_files import read_bytes
from grpo_recipes.contract.integrity.run_folder import PLAN_FILE
from grpo_recipes.contract.metrics import METRICS_FILE, mapping, number, read_all, reward_as_drawn
from grpo_recipes.contract.run_record import RunRecord, evaluation_file, read_record, set_of
from grpo_recipes.lock.read_lock import LARGEST_PLAN_BYTES
from grpo_recipes.report.runs.run_row import one_run
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
    found = {run: _standing(folder / run.name) for run in sweep.runs}
    records = {run: read_record(str(folder / run.name)) for run in sweep.runs if found[run][0] == "completed"}
    is_held_out = bool(records) and all(record and _held_out(record) is not None for record in records.values())
    samples = {
        run: _held_out_sample(folder / run.name, record) if is_held_out else _training_sample(folder / run.name, record)
        for run, record in records.items()
        if record is not None
    }
    of_sets = {set_of(record.evaluation) for record in records.values() if record is not None} - {""}
    held_out = f"{HELD_OUT}, of {' or '.join(sorted(of_sets))}" if of_sets else HELD_OUT
    measure = held_out if is_held_out else TRAINING if any(samples.values()) else None
    return measure, [SweptRun(run, *found[run], samples.get(run)) for run in sweep.runs]


def _standing(folder: Path) -> tuple[str, tuple[str, ...], str]:
    try:
        run = one_run(folder)
    except OSError as problem:
        return "missing", (str(problem.strerror or problem),), ""
    return ("missing", (), "") if run is None else (run.status, run.because, run.verdict.partition(":")[0])


def _held_out(record: RunRecord) -> float | None:
    return number(mapping(record.evaluation, "after"), "reward")


def _held_out_sample(folder: Path, record: RunRecord) -> Sample | None:
    """None if a judge left completions without a score: the mean would be over fewer rows than those of other runs."""
    reward = _held_out(record)
    assert reward is not None
    if number(mapping(record.evaluation, "after"), "without_score") is not None:
        return None
    rows = _rows(folder, set_of(record.evaluation), number(mapping(record.evaluation, "after"), "step"))
    known = [reward for reward in rows if reward is not None]
    agrees = bool(known) and math.isclose(math.fsum(known) / len(known), reward, rel_tol=1e-6, abs_tol=1e-9)
    return Sample(reward, rows if agrees else ())


def _rows(folder: Path, name: str, step: float | None) -> tuple[float | None, ...]:
    """The mean reward of each held-out row over its completions, summed as its evaluation does; () if unknown.

    None for a row without any reward. name: of the set.
    """
    if step is None:
        return ()
    try:
        plan = cast("dict[str, Any]", read_json(folder, PLAN_FILE, LARGEST_PLAN_BYTES))
        weights = {str(reward["name"]): float(reward["weight"]) for reward in plan["rewards"]}
        lines = read_bytes(folder, evaluation_file(name, step), _LARGEST_ROWS).splitlines()
        totals: dict[int, list[float]] = {}
        for line in lines:
            completion = cast("dict[str, Any]", parsed(line))
            scores = {name: float(score) for name, score in completion["rewards"].items() if score is not None}
            of_row = totals.setdefault(int(completion["row"]), [])
            if scores:
                of_row.append(math.fsum(weights.get(name, 1.0) * score for name, score in scores.items()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()
    return tuple(math.fsum(totals[row]) / len(totals[row]) if totals[row] else None for row in sorted(totals))


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


def compared(folder: str, sweep: Sweep) -> SweepComparison:
    """The comparison of all settings, with the runs that have ended so far. Writes nothing."""
    measure, runs = _outcomes(Path(folder), sweep)
    settings = [_setting(place, sweep, runs) for place in range(len(sweep.settings))]
    whole = [index for index, setting in enumerate(settings) if setting.is_whole]
    best = max(whole, key=lambda place: settings[place].mean or 0.0, default=None)
    # The best setting is only known from these outcomes, so any pair could have been compared.
    pairs = list(itertools.combinations(whole, 2))
    of_pairs = verdicts([difference(settings[one].samples, settings[other].samples) for one, other in pairs])
    to_best = {
        one if other == best else other: verdict if other == best else _turned(verdict)
        for (one, other), verdict in zip(pairs, of_pairs, strict=True)
        if best in (one, other)
    }
    to_base = _to_base(settings, whole, sweep.base)
    settings = [
        setting._replace(is_best=place == best, to_best=to_best.get(place), to_base=to_base.get(place))
        for place, setting in enumerate(settings)
    ]
    rows = min((verdict.difference.rows for verdict in of_pairs), default=0)
    return SweepComparison(folder, sweep, measure, tuple(settings), rows, len(pairs))


def _setting(place: int, sweep: Sweep, found: Sequence[SweptRun]) -> SweptSetting:
    runs = tuple(swept for swept in found if swept.run.setting == place)
    values = [swept.sample.outcome for swept in runs if swept.sample is not None]
    mean = math.fsum(values) / len(values) if values else None
    spread = statistics.stdev(values) if len(values) > 1 else None
    interval = mean_interval(values)
    return SweptSetting(sweep.settings[place], runs, mean, spread, interval, False, place == sweep.base, None, None)


def _to_base(settings: Sequence[SweptSetting], whole: Sequence[int], base: int | None) -> dict[int, Verdict]:
    """The verdicts on the differences to the unchanged recipe, which was chosen before anything ran."""
    if base is None or base not in whole:
        return {}
    others = [place for place in whole if place != base]
    found = verdicts([difference(settings[place].samples, settings[base].samples) for place in others])
    return dict(zip(others, found, strict=True))


def _turned(verdict: Verdict) -> Verdict:
    """The verdict with the two settings swapped."""
    turned: SettingDifference = verdict.difference._replace(mean=0.0 - verdict.difference.mean)
    return verdict._replace(difference=turned)


def conclusion(comparison: SweepComparison) -> list[str]:
    """The conclusions about the sweep, one sentence each."""
    lines = []
    for one in comparison.settings:
        if not one.is_whole:
            missing = [swept for swept in one.runs if swept.sample is None]
            states = ", ".join(dict.fromkeys(_state(swept, comparison.measure) for swept in missing))
            lines.append(
                f"{setting_text(one.trial)} is not compared: {len(missing)} of its {len(one.runs)} runs"
                f" ha{'s' if len(missing) == 1 else 've'} no outcome ({states})"
            )
    best = next((one for one in comparison.settings if one.is_best), None)
    against = [setting for setting in comparison.settings if setting.to_best is not None]
    if best is None or not against:
        return lines
    seeds = len(best.runs)
    if seeds == 1:
        return [*lines, "one seed cannot tell a difference from noise; use at least --seeds 3"]
    if not any(one.to_best and one.to_best.is_told for one in against):
        same = ": the settings have the same mean" if all(one.mean == best.mean for one in against) else ""
        return [*lines, f"no difference exceeds noise with {seeds} seeds{same}"]
    open_ones = [setting_text(one.trial) for one in against if one.to_best and not one.to_best.is_told]
    ahead = f"{setting_text(best.trial)} is the best"
    if open_ones:
        return [*lines, f"{ahead}; with {seeds} seeds no difference exceeds noise for {', '.join(open_ones)}"]
    return [*lines, f"{ahead}, and its difference to each other setting exceeds noise"]


def _state(swept: SweptRun, measure: str | None) -> str:
    if swept.status == "completed" and measure not in (None, TRAINING):
        return "completed, with completions that have no judge's score"
    return f"{swept.status}{f' {swept.because[0]}' if swept.because and swept.status == 'stopped' else ''}"
