"""The settings of a sweep beside each other: their means, and which differences are beyond noise."""

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
from grpo_recipes.report.runs.one_run import one_run
from grpo_recipes.sweep.sweep_file import Sweep, SweepRun, setting_text
from grpo_recipes.sweep.varied import Trial
from grpo_recipes.sweep.verdicts import Sample, SettingDifference, Verdict, difference, mean_interval, verdicts

HELD_OUT = "held-out reward after the last step"
TRAINING = "mean training reward of the last tenth of the steps"
_SHARE = 10
_LARGEST_ROWS = 64 << 20


class SweptRun(NamedTuple):
    """A run of a sweep as it stands. status: as `grpo-run runs` has it, "missing" where its folder is gone.

    because: the ids of what ended it. verdict: what a completed one means, in a few words. sample: of one that
    completed, None where its outcome is not known.
    """

    run: SweepRun
    status: str
    because: tuple[str, ...]
    verdict: str
    sample: Sample | None


def _outcomes(folder: Path, sweep: Sweep) -> tuple[str | None, list[SweptRun]]:
    """What the outcome is, the same for all runs, None as long as none completed; and each run as it stands."""
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
    """None where a judge left completions without a score: the mean is then of fewer rows than another run's."""
    reward = _held_out(record)
    assert reward is not None
    if number(mapping(record.evaluation, "after"), "without_score") is not None:
        return None
    rows = _rows(folder, set_of(record.evaluation), number(mapping(record.evaluation, "after"), "step"))
    # Rows without any reward are not in the mean, and then the rows say something else than it does.
    agrees = bool(rows) and math.isclose(math.fsum(rows) / len(rows), reward, rel_tol=1e-6, abs_tol=1e-9)
    return Sample(reward, rows if agrees else ())


def _rows(folder: Path, name: str, step: float | None) -> tuple[float, ...]:
    """The reward of each held-out row, as its evaluation adds them up; () where that cannot be known.

    name: of the set.
    """
    if step is None:
        return ()
    try:
        plan = cast("dict[str, Any]", read_json(folder, PLAN_FILE, LARGEST_PLAN_BYTES))
        weights = {str(one["name"]): float(one["weight"]) for one in plan["rewards"]}
        lines = read_bytes(folder, evaluation_file(name, step), _LARGEST_ROWS).splitlines()
        rewards = [cast("dict[str, Any]", parsed(line))["rewards"] for line in lines]
        return tuple(
            math.fsum(weights.get(name, 1.0) * float(value) for name, value in row.items() if value is not None)
            for row in rewards
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()


def _training_sample(folder: Path, record: RunRecord) -> Sample | None:
    """The mean over the last tenth of the steps that tell a reward, at least one of them."""
    events = read_all(str(folder / METRICS_FILE))
    # A resumed run has the events of its earlier attempts too; the last one of a step counts.
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
    """A setting with its runs. mean, spread: of the outcomes that there are; spread is their standard deviation.

    interval: of the mean, None for a single outcome.
    to_best, to_base: how it differs from the best setting and from the recipe as it stands; None for that one itself,
    and where one of the two lacks an outcome.
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
        """Whether each of its runs has an outcome; else it is compared with none."""
        return len(self.samples) == len(self.runs)


class SweepComparison(NamedTuple):
    """measure: what the outcome is. rows: held-out rows whose noise is in the test, 0 for none. pairs: looked at."""

    folder: str
    sweep: Sweep
    measure: str | None
    settings: tuple[SweptSetting, ...]
    rows: int
    pairs: int


def compared(folder: str, sweep: Sweep) -> SweepComparison:
    """The comparison of all settings, with what has ended by now. Nothing is written."""
    measure, runs = _outcomes(Path(folder), sweep)
    settings = [_setting(place, sweep, runs) for place in range(len(sweep.settings))]
    whole = [place for place, setting in enumerate(settings) if setting.is_whole]
    best = max(whole, key=lambda place: settings[place].mean or 0.0, default=None)
    # The best is known only from these outcomes, so that each pair could have been looked at.
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
    samples = [sample for place in whole for sample in settings[place].samples.values()]
    counts = {len(sample.rows) for sample in samples}
    return SweepComparison(folder, sweep, measure, tuple(settings), counts.pop() if len(counts) == 1 else 0, len(pairs))


def _setting(place: int, sweep: Sweep, found: Sequence[SweptRun]) -> SweptSetting:
    runs = tuple(swept for swept in found if swept.run.setting == place)
    values = [swept.sample.outcome for swept in runs if swept.sample is not None]
    mean = math.fsum(values) / len(values) if values else None
    spread = statistics.stdev(values) if len(values) > 1 else None
    interval = mean_interval(values)
    return SweptSetting(sweep.settings[place], runs, mean, spread, interval, False, place == sweep.base, None, None)


def _to_base(settings: Sequence[SweptSetting], whole: Sequence[int], base: int | None) -> dict[int, Verdict]:
    """The verdicts on the differences to the recipe as it stands, which was named before anything ran."""
    if base is None or base not in whole:
        return {}
    others = [place for place in whole if place != base]
    found = verdicts([difference(settings[place].samples, settings[base].samples) for place in others])
    return dict(zip(others, found, strict=True))


def _turned(verdict: Verdict) -> Verdict:
    """The verdict with the other setting first."""
    turned: SettingDifference = verdict.difference._replace(mean=0.0 - verdict.difference.mean)
    return verdict._replace(difference=turned)


def conclusion(found: SweepComparison) -> list[str]:
    """What can be said of the sweep, a sentence each."""
    lines = []
    for one in found.settings:
        if not one.is_whole:
            missing = [swept for swept in one.runs if swept.sample is None]
            states = ", ".join(dict.fromkeys(_state(swept, found.measure) for swept in missing))
            lines.append(
                f"{setting_text(one.trial)} is not compared: {len(missing)} of its {len(one.runs)} runs"
                f" ha{'s' if len(missing) == 1 else 've'} no outcome ({states})"
            )
    best = next((one for one in found.settings if one.is_best), None)
    against = [one for one in found.settings if one.to_best is not None]
    if best is None or not against:
        return lines
    seeds = len(best.runs)
    if seeds == 1:
        return [*lines, "with one seed no difference can be told from noise; --seeds 3 is the least that can"]
    if not any(one.to_best and one.to_best.is_told for one in against):
        same = ": the settings came to the same" if all(one.mean == best.mean for one in against) else ""
        return [*lines, f"no difference can be told with {seeds} seeds{same}"]
    open_ones = [setting_text(one.trial) for one in against if one.to_best and not one.to_best.is_told]
    ahead = f"{setting_text(best.trial)} is the best"
    if open_ones:
        return [*lines, f"{ahead}; no difference to it can be told with {seeds} seeds for {', '.join(open_ones)}"]
    return [*lines, f"{ahead}, and the difference to each other setting is beyond noise"]


def _state(swept: SweptRun, measure: str | None) -> str:
    if swept.status == "completed" and measure not in (None, TRAINING):
        return "completed, with completions that have no judge's score"
    return f"{swept.status}{f' {swept.because[0]}' if swept.because and swept.status == 'stopped' else ''}"
