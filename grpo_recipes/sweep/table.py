"""Formats the table of a sweep, for a person and for programs."""

import json

from grpo_recipes.contract.findings.wording import align_rows, shorten
from grpo_recipes.contract.secrets.redact import hide_secrets, redact_value
from grpo_recipes.report.html.outcome_scale import Outcomes
from grpo_recipes.report.html.page import SweepTable
from grpo_recipes.sweep.comparison import SweepComparison, SweptSetting, conclusion
from grpo_recipes.sweep.sweep_file import headings
from grpo_recipes.sweep.verdicts import LEVEL, Verdict

TABLE_FORMAT = 1
_LONGEST = 24
# Keys that the outcome itself is computed from.
_MEASURING = ("rewards", "evaluation")


def table_text(comparison: SweepComparison) -> str:
    """The table, the method of the comparison and the conclusions; each line ends with a newline."""
    rows = table_rows(comparison)
    settings = len(comparison.sweep.settings[0])
    table = align_rows(rows, right=[index for index in range(settings, len(rows[0])) if rows[0][index]])
    lines = [outcome_text(comparison), "", *table]
    notes = [*_notes(comparison), *conclusion(comparison)]
    return "".join(f"{line}\n" for line in [*lines, *([""] if notes else []), *notes])


def outcome_text(comparison: SweepComparison) -> str:
    """The outcome that is compared: "outcome: held-out reward after the last step; ..."."""
    each = ", ".join(map(str, comparison.sweep.seeds))
    seeds = f"mean and its 95% interval over the seeds {each}" if len(comparison.sweep.seeds) > 1 else f"of seed {each}"
    return f"outcome: {comparison.measure or 'not known yet, no run has completed'}; {seeds}"


def table_of_page(comparison: SweepComparison) -> SweepTable:
    """The table and its notes for a page, which has the conclusions first and the outcomes as pictures."""
    outcomes = [
        Outcomes(
            setting.mean,
            setting.interval,
            tuple(sample.outcome for sample in setting.samples.values()),
            tuple(swept.run.name for swept in setting.runs),
        )
        for setting in _best_first(comparison)
    ]
    rows, keys = table_rows(comparison), len(comparison.sweep.settings[0])
    return SweepTable(conclusion(comparison), outcome_text(comparison), rows, _notes(comparison), keys, outcomes)


def _notes(comparison: SweepComparison) -> list[str]:
    """The meaning of the runs, and the method of the comparison."""
    return [*_meanings(comparison), *_test(comparison), *_caveats(comparison)]


def _best_first(comparison: SweepComparison) -> list[SweptSetting]:
    return sorted(comparison.settings, key=lambda setting: (not setting.is_whole, -(setting.mean or 0.0)))


def table_rows(comparison: SweepComparison) -> list[list[str]]:
    """The headings, then the settings, best first."""
    named = headings(list(dict(comparison.settings[0].trial)))
    has_base = any(setting.to_base is not None for setting in comparison.settings)
    head = [*named.values(), "runs", "mean", "interval", "to best", "", *(["to base", ""] if has_base else [])]
    rows = []
    for setting in _best_first(comparison):
        cells = [*(_short(text) for _, text in setting.trial), f"{len(setting.samples)}/{len(setting.runs)}"]
        cells += [_figure(setting.mean), _interval(setting.interval)]
        cells += ["best", ""] if setting.is_best else _verdict(setting.to_best)
        if has_base:
            cells += ["base", ""] if setting.is_base else _verdict(setting.to_base)
        rows.append(cells)
    return [head, *rows]


def _verdict(verdict: Verdict | None) -> list[str]:
    """A difference and its verdict."""
    if verdict is None:
        return ["-", ""]
    mean = verdict.difference.mean
    p = "" if verdict.p is None else f", p {verdict.p:.2g}"
    if verdict.is_told:
        return [f"{mean:+.3f}", f"{'higher' if mean > 0 else 'lower'}{p}"]
    if mean == 0 and verdict.p is not None:
        return ["0.000", "no difference"]
    return [f"{mean:+.3f}", f"within noise{p}"]


def _meanings(comparison: SweepComparison) -> list[str]:
    """The number of runs with each verdict; a run that differs from the majority is named."""
    verdicts: dict[str, list[str]] = {}
    for swept in (swept for setting in comparison.settings for swept in setting.runs if swept.verdict):
        verdicts.setdefault(swept.verdict, []).append(swept.run.name)
    counted = sorted(verdicts.items(), key=lambda item: -len(item[1]))
    words = [f"{len(runs)} {text}" + (f" ({runs[0]})" if len(runs) == 1 else "") for text, runs in counted]
    return [f"verdicts of the runs: {', '.join(words)}"] if words else []


def _test(comparison: SweepComparison) -> list[str]:
    if comparison.pairs == 0 or len(comparison.sweep.seeds) < 2:
        return []
    rows = f", with the noise of {comparison.rows} held-out rows" if comparison.rows else ""
    pairs = f"{comparison.pairs} pair{'' if comparison.pairs == 1 else 's'}"
    return [
        f"test: paired t-test over {len(comparison.sweep.seeds)} seeds{rows}; p after Holm's correction, for the best"
        f" over all {pairs}; beyond noise is p < {LEVEL}; it assumes normal differences between seeds"
    ]


def _caveats(comparison: SweepComparison) -> list[str]:
    keys = [key for key, _ in comparison.sweep.settings[0] if _is_measuring(key, comparison.measure or "")]
    lines = [f"{keys[0]} is part of the outcome itself, so the settings are measured differently"] if keys else []
    # Without a spread, there is nothing to compare a difference with.
    is_coarse = any(
        setting.to_best is not None
        and setting.to_best.p is None
        and len(setting.runs) > 1
        and setting.to_best.difference.mean != 0
        for setting in comparison.settings
    )
    note = "a difference is the same in every seed: the outcome is too coarse to measure its noise"
    return [*lines, note] if is_coarse else lines


def _is_measuring(key: str, measure: str) -> bool:
    """Whether a key decides how the outcome is measured; of several held-out sets only those that the measure names."""
    section, *parts = key.split(".")
    of_a_set = section == "evaluation" and parts[:1] == ["sets"] and len(parts) > 1
    is_of_outcome = not of_a_set or parts[1] in measure.rpartition(", of ")[2].split(" or ")
    return section.split("[")[0] in _MEASURING and is_of_outcome


def table_json(comparison: SweepComparison) -> str:
    """The table as data."""
    content = {
        "sweep": TABLE_FORMAT,
        "folder": comparison.folder,
        "recipe": comparison.sweep.recipe,
        "measure": comparison.measure,
        "seeds": list(comparison.sweep.seeds),
        "test": {
            "name": "paired t-test over seeds",
            "correction": "Holm",
            "level": LEVEL,
            "held_out_rows": comparison.rows,
            "pairs": comparison.pairs,
        },
        "settings": [_setting(setting) for setting in comparison.settings],
        "conclusion": conclusion(comparison),
    }
    return json.dumps(redact_value(content), indent=2)


def _setting(setting: SweptSetting) -> dict[str, object]:
    return {
        "values": dict(setting.trial),
        "mean": setting.mean,
        "interval": setting.interval,
        "spread": setting.spread,
        "is_best": setting.is_best,
        "is_base": setting.is_base,
        "to_best": _as_data(setting.to_best),
        "to_base": _as_data(setting.to_base),
        "runs": [
            {
                "name": swept.run.name,
                "seed": swept.run.seed,
                "status": swept.status,
                "because": list(swept.because),
                "verdict": swept.verdict,
                "outcome": None if swept.sample is None else swept.sample.outcome,
            }
            for swept in setting.runs
        ],
    }


def _as_data(verdict: Verdict | None) -> dict[str, object] | None:
    if verdict is None:
        return None
    return {
        "difference": verdict.difference.mean,
        "p": verdict.p,
        "is_told": verdict.is_told,
    }


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if abs(value) < 1e6 else f"{value:.3g}"


def _interval(ends: tuple[float, float] | None) -> str:
    return "-" if ends is None else f"[{_figure(ends[0])}, {_figure(ends[1])}]"


def _short(text: str) -> str:
    return shorten(hide_secrets(text), _LONGEST)
