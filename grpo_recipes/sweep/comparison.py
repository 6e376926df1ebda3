"""The settings of a sweep beside each other: their means, and which differences are beyond noise."""

import itertools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from grpo_recipes.sweep.outcomes import Outcomes, SweptRun, outcomes
from grpo_recipes.sweep.sweep_file import Sweep, setting_text
from grpo_recipes.sweep.varied import Trial
from grpo_recipes.sweep.verdicts import Sample, SettingDifference, Verdict, difference, verdicts


class SweptSetting(NamedTuple):
    """A setting with its runs. mean, spread: of the outcomes that there are; spread is their standard deviation.

    to_best, to_base: how it differs from the best setting and from the recipe as it stands; None for that one itself,
    and where one of the two lacks an outcome.
    """

    trial: Trial
    runs: tuple[SweptRun, ...]
    mean: float | None
    spread: float | None
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
    found = outcomes(Path(folder), sweep)
    settings = [_setting(place, sweep, found) for place in range(len(sweep.settings))]
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
    return SweepComparison(
        folder, sweep, found.measure, tuple(settings), counts.pop() if len(counts) == 1 else 0, len(pairs)
    )


def _setting(place: int, sweep: Sweep, found: Outcomes) -> SweptSetting:
    runs = tuple(swept for swept in found.runs if swept.run.setting == place)
    values = [swept.sample.outcome for swept in runs if swept.sample is not None]
    mean = math.fsum(values) / len(values) if values else None
    spread = statistics.stdev(values) if len(values) > 1 else None
    return SweptSetting(sweep.settings[place], runs, mean, spread, False, place == sweep.base, None, None)


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
            states = ", ".join(dict.fromkeys(_state(swept) for swept in missing))
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


def _state(swept: SweptRun) -> str:
    return f"{swept.status}{f' {swept.because[0]}' if swept.because and swept.status == 'stopped' else ''}"
