"""The charts of a report and their descriptions: every figure of one run, or the same figure of several."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from grpo_recipes.contract import metric_names as metric
from grpo_recipes.contract.metrics import figures_of, number
from grpo_recipes.report.html.run_data import ReportedRun
from grpo_recipes.report.html.series import NO_FOLDER, figure, join_parts, percent, public_text
from grpo_recipes.rewards.ranges import planned_range, range_of_sum

MOST_REWARDS = 12
MOST_OTHERS = 24
_DIGITS = 5
_LONGEST_TITLE = 80


class Curve(NamedTuple):
    """One line of a chart. name: the figure. low, high: figures that bound a band around it; around: the figure whose
    standard deviation is the band.
    """

    name: str
    label: str
    low: str = ""
    high: str = ""
    around: str = ""


class ChartKind(NamedTuple):
    """A kind of chart. lines: curves, drawn if the run has them; for several runs only the first is drawn.

    about: what to look for; band: of the band of a single run. is_share: from 0 to 1, shown as a percentage. unit: the
    divisor of its values.
    """

    id: str
    title: str
    lines: tuple[Curve, ...]
    about: str = ""
    band: str = ""
    group: str = "training"
    is_share: bool = False
    unit: float = 1


_ENDS = ("stop", "eos", "length")
KINDS = (
    ChartKind(
        "no-variance",
        "Groups without variance",
        (Curve(metric.GROUPS_WITHOUT_VARIANCE, "share of groups"),),
        "A group whose completions all have the same reward teaches nothing.",
        is_share=True,
    ),
    ChartKind(
        "resampled",
        "Redrawn groups",
        (Curve(metric.GROUPS_REDRAWN, "redrawn"), Curve(metric.GROUPS_LEFT, "left without variance")),
        "Redrawn in all rounds of a generation, and trained although they still have no variance.",
    ),
    ChartKind(
        "lengths",
        "Lengths of completions",
        (
            Curve(metric.MEAN_LENGTH, "mean", metric.MIN_LENGTH, metric.MAX_LENGTH),
            Curve(metric.MEAN_ENDED_LENGTH, "mean of those that ended"),
        ),
        "In tokens.",
        "The band reaches from the shortest to the longest.",
    ),
    ChartKind(
        "ends",
        "How completions end",
        (
            Curve(metric.CLIPPED_RATIO, "truncated"),
            *(Curve(f"completions/ended_by_{way}", f"by {way}") for way in _ENDS),
        ),
        "By a stop string, by the model's own end, or cut at the longest length.",
        is_share=True,
    ),
    ChartKind(
        "entropy",
        "Entropy",
        (Curve("entropy", "entropy"),),
        "Of the next token; near 0 the policy no longer explores.",
    ),
    ChartKind("kl", "KL to the reference", (Curve("kl", "KL"),), "How far the policy has moved from its start."),
    ChartKind(
        "clipping",
        "Clipping",
        (
            Curve(metric.CLIP_ALL, "all"),
            Curve(metric.CLIP_LOW, "low"),
            Curve(metric.CLIP_HIGH, "high"),
        ),
        "Share of tokens whose ratio is clipped.",
        is_share=True,
    ),
    ChartKind("gradient", "Gradient norm", (Curve("grad_norm", "norm"),), "Before it is clipped."),
    ChartKind("loss", "Loss", (Curve("loss", "loss"),), "Near 0 by construction, however well the run goes."),
    ChartKind("rate", "Learning rate", (Curve("learning_rate", "learning rate"),)),
    ChartKind(
        "sampler",
        "Distance to the sampler",
        (
            Curve(metric.SAMPLER_DIFFERENCE, "mean"),
            Curve(metric.SAMPLER_DIFFERENCE_MAX, "most"),
        ),
        "Differences of log-probabilities between vLLM and the trainer.",
    ),
    ChartKind(
        "time",
        "Seconds of a step",
        (Curve("step_time", "step_time"), *(Curve(name, phase) for phase, name in metric.PHASE_SECONDS.items())),
        "Elapsed time; sync sends the weights to vLLM. TRL's step_time leaves out the optimizer.",
    ),
    ChartKind(
        "memory",
        "Memory of a step",
        (Curve("memory_bytes", "GiB"),),
        "The peak of the first process.",
        unit=2**30,
    ),
)
_REWARD = ChartKind(
    "reward",
    "Reward",
    (Curve("reward", "mean", around="reward_std"), Curve(metric.REWARD_AS_DRAWN, "before resampling")),
    "Mean of a step.",
    "The band is one standard deviation each way, within what the rewards can give.",
    group="rewards",
)
_OF_KINDS = frozenset(
    name for kind in KINDS for line in kind.lines for name in (line.name, line.low, line.high) if name
)
_LENGTHS = (metric.MIN_LENGTH, metric.MAX_LENGTH)
_SAID_ELSEWHERE = ("reward", "reward_std", metric.TRL_WITHOUT_VARIANCE, "epoch", "num_tokens", *_LENGTHS)


def charts(runs: Sequence[ReportedRun], names: Sequence[str]) -> list[dict[str, object]]:
    """The charts of a page with their texts. names: of the runs, which label their lines if there are several.

    A chart has id, title, about, said (the figures in words), group, is_share and lines: run (its index), label, y, and
    low and high for a band; x is that of the run, except for held-out figures, which have their own.
    """
    kinds = [*_each_reward(runs), *KINDS, *_others(runs)]
    drawn = [_of_kind(_REWARD, runs, names), _held_out_chart(runs, names)]
    drawn += [_of_kind(kind, runs, names) for kind in kinds]
    return [chart for chart in drawn if chart["lines"]]


def _each_reward(runs: Sequence[ReportedRun]) -> list[ChartKind]:
    """A chart for each reward function, if there are several."""
    means = dict.fromkeys(
        name for run in runs for name in run.series.figures if name.startswith("rewards/") and name.endswith("/mean")
    )
    return [
        ChartKind(
            f"reward-{index}",
            f"Reward {name.removeprefix('rewards/').removesuffix('/mean')}",
            (Curve(name, "mean", around=f"{name.removesuffix('mean')}std"),),
            group="rewards",
        )
        for index, name in enumerate([*means][:MOST_REWARDS] if len(means) > 1 else [])
    ]


def _others(runs: Sequence[ReportedRun]) -> list[ChartKind]:
    """Every other logged number, from a user's reward or a different release of TRL."""
    names = dict.fromkeys(name for run in runs for name in run.series.figures)
    known = {*_OF_KINDS, *_SAID_ELSEWHERE}
    left = [name for name in names if name not in known and not name.startswith("rewards/")]
    return [
        ChartKind(f"other-{index}", name, (Curve(name, "value"),), group="other")
        for index, name in enumerate(left[:MOST_OTHERS])
    ]


def _held_out_chart(runs: Sequence[ReportedRun], names: Sequence[str]) -> dict[str, object]:
    lines: list[dict[str, object]] = []
    summaries = []
    each = [(index, name, events) for index, run in enumerate(runs) for name, events in run.evaluations.items()]
    for run_index, name, events in each:
        known = {step: value for step in sorted(events) if (value := number(events[step], "reward")) is not None}
        if not known:
            continue
        steps, values = [*known], [*known.values()]
        intervals = [next(figures_of(events[step]))[2] for step in steps]
        band = {
            end: round_values([None if ends is None else ends[index] for ends in intervals])
            for index, end in enumerate(("low", "high") if any(intervals) else ())
        }
        label = ", ".join(filter(None, (names[run_index] if len(runs) > 1 else "", public_text(name, NO_FOLDER))))
        lines.append({"run": run_index, "label": label or "reward", "x": steps, "y": round_values(values), **band})
        ends = " → ".join(map(figure, (values[0], values[-1])[: len(values)]))
        summaries.append(f"{label}: {ends}" if label else ends)
    about = f"On rows that are not trained on{', with intervals' if any('low' in line for line in lines) else ''}."
    kind = ChartKind("held-out", "Held-out reward", (), about, group="rewards")
    return _chart(kind, lines, summaries, has_points=True)


def _of_kind(kind: ChartKind, runs: Sequence[ReportedRun], names: Sequence[str]) -> dict[str, object]:
    lines: list[dict[str, object]] = []
    summaries = []
    title = f"{kind.title}: {kind.lines[0].label}" if len(runs) > 1 and len(kind.lines) > 1 else kind.title
    for index, run in enumerate(runs):
        curves = [curve for curve in kind.lines if run.series.has(curve.name)]
        if len(runs) > 1:
            curves = [curve._replace(label=names[index]) for curve in curves if curve.name == kind.lines[0].name]
        for curve in curves:
            band = _band(kind, curve, run) if len(runs) == 1 else {}
            lines.append(
                {"run": index, "label": curve.label, "y": _values(kind, run.series.points_of(curve.name)), **band}
            )
        # A figure that is always 0 is only mentioned if there is no other.
        summarized = [curve for curve in curves if any(run.series.figures[curve.name].values)] or curves[:1]
        for curve in summarized:
            label = f"{curve.label}: " if len(runs) > 1 else f"{curve.label} " if len(curves) > 1 else ""
            first, last, _ = run.series.figures[curve.name].ends()
            shown = percent if kind.is_share else figure
            summaries.append(f"{label}{shown(first / kind.unit)} → {shown(last / kind.unit)}")
    about = f"{kind.about} {kind.band}".rstrip() if any("low" in line for line in lines) else kind.about
    return _chart(kind._replace(title=title, about=about), lines, summaries)


def _band(kind: ChartKind, curve: Curve, run: ReportedRun) -> dict[str, object]:
    """The band around a line: its bounds, its standard deviation, or the extremes within a point."""
    series = run.series
    if curve.low and series.has(curve.low) and series.has(curve.high):
        low, high = series.points_of(curve.low, min), series.points_of(curve.high, max)
    elif curve.around and series.has(curve.around):
        mean, spread = series.points_of(curve.name), series.points_of(curve.around)
        least, most = _limits(run, curve.name)
        low = [None if a is None or b is None else max(a - b, least) for a, b in zip(mean, spread, strict=True)]
        high = [None if a is None or b is None else min(a + b, most) for a, b in zip(mean, spread, strict=True)]
    elif len(kind.lines) == 1 and series.width > 1:
        low, high = series.points_of(curve.name, min), series.points_of(curve.name, max)
    else:
        return {}
    return {"low": _values(kind, low), "high": _values(kind, high)}


def _limits(run: ReportedRun, name: str) -> tuple[float, float]:
    """The lowest and highest value that a reward can give, infinite if unknown. name: of its figure."""
    if run.planned is not None and name == "reward":
        return range_of_sum(run.planned)
    rewards = () if run.planned is None else run.planned.rewards
    known = {f"rewards/{reward.name}/mean": planned_range(reward) for reward in rewards}
    return known.get(name, (-math.inf, math.inf))


def _values(kind: ChartKind, values: Sequence[float | None]) -> list[float | None]:
    return round_values([None if value is None else value / kind.unit for value in values])


def _chart(
    kind: ChartKind, lines: list[dict[str, object]], summaries: Sequence[str], *, has_points: bool = False
) -> dict[str, object]:
    return {
        "id": kind.id,
        "title": public_text(kind.title, NO_FOLDER, _LONGEST_TITLE),
        "about": kind.about,
        "said": join_parts(summaries),
        "group": kind.group,
        "is_share": kind.is_share,
        "has_points": has_points,
        "lines": lines,
    }


def round_values(values: Sequence[float | None]) -> list[float | None]:
    """Rounded to five digits: more would not be visible, and take space."""
    return [None if value is None else float(f"{value:.{_DIGITS}g}") for value in values]
