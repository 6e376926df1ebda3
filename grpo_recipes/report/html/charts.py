"""What is drawn, and what each chart says in words: of one run its figures, of several the same figure of each."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from grpo_recipes.contract import metric_names as metric
from grpo_recipes.contract.metrics import number
from grpo_recipes.report.html.reported_run import ReportedRun
from grpo_recipes.report.html.series import NO_FOLDER, StepSeries, figure, joined, percent, shown_text

MOST_REWARDS = 12
MOST_OTHERS = 24
_DIGITS = 5
_LONGEST_TITLE = 80


class Curve(NamedTuple):
    """One line of a chart. name: of the figure; low, high: names of what bounds a band around it, "" for none."""

    name: str
    label: str
    low: str = ""
    high: str = ""


class ChartKind(NamedTuple):
    """A chart. lines: those of the run that has them; the first stands for a run among several.

    about: what to look for. is_share: from 0 to 1, shown as per cent. spread: the least and the most within a point
    are a band. whole: the scale begins at 0.
    """

    id: str
    title: str
    lines: tuple[Curve, ...]
    about: str = ""
    is_share: bool = False
    spread: bool = False


_ENDS = ("stop", "eos", "length")
KINDS = (
    ChartKind(
        "no-variance",
        "Groups without variance",
        (Curve(metric.GROUPS_WITHOUT_VARIANCE, "share of groups"),),
        "Groups of which all completions have the same reward teach nothing.",
        is_share=True,
        spread=True,
    ),
    ChartKind(
        "lengths",
        "Lengths of completions",
        (
            Curve(metric.MEAN_LENGTH, "mean", metric.MIN_LENGTH, metric.MAX_LENGTH),
            Curve(metric.MEAN_ENDED_LENGTH, "mean of those that ended"),
        ),
        "Tokens; the band is from the shortest to the longest.",
    ),
    ChartKind(
        "ends",
        "How completions end",
        (
            *(Curve(f"completions/ended_by_{way}", f"by {way}") for way in _ENDS),
            Curve(metric.CLIPPED_RATIO, "truncated"),
        ),
        "By a stop text, by the model's own end, or cut at the longest length.",
        is_share=True,
    ),
    ChartKind(
        "entropy",
        "Entropy",
        (Curve("entropy", "entropy"),),
        "Of the next token; near 0 nothing new is tried.",
        spread=True,
    ),
    ChartKind("kl", "KL to the reference", (Curve("kl", "KL"),), "How far the policy is from its start.", spread=True),
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
    ChartKind("gradient", "Gradient norm", (Curve("grad_norm", "norm"),), "Before it is clipped.", spread=True),
    ChartKind("loss", "Loss", (Curve("loss", "loss"),), "Near 0 by its making, however well it goes.", spread=True),
    ChartKind("rate", "Learning rate", (Curve("learning_rate", "learning rate"),)),
    ChartKind(
        "sampler",
        "Distance to the sampler",
        (
            Curve(metric.SAMPLER_DIFFERENCE, "mean"),
            Curve(metric.SAMPLER_DIFFERENCE_MAX, "most"),
        ),
        "Of log-probabilities between vLLM and the trainer.",
    ),
    ChartKind("time", "Seconds of a step", (Curve("step_time", "seconds"),), spread=True),
    ChartKind(
        "memory",
        "Memory of a step",
        (Curve("memory_bytes", "GiB"),),
        "The most that the first process held.",
        spread=True,
    ),
)
# What stands for a chart of several lines where there are several runs.
_OF_SEVERAL = {
    "ends": ChartKind(
        "ends",
        "Truncated completions",
        (Curve(metric.CLIPPED_RATIO, "truncated"),),
        "Share that was cut at the longest length.",
        is_share=True,
    )
}
_OF_KINDS = frozenset(
    name for kind in KINDS for line in kind.lines for name in (line.name, line.low, line.high) if name
)
_LENGTHS = (metric.MIN_LENGTH, metric.MAX_LENGTH)
_SAID_ELSEWHERE = ("reward", "reward_std", metric.TRL_WITHOUT_VARIANCE, "epoch", "num_tokens", *_LENGTHS)


def charts(runs: Sequence[ReportedRun], names: Sequence[str]) -> list[dict[str, object]]:
    """The charts of a page, each with its words. names: of the runs, as their lines are called where there are several.

    A chart has id, title, about, said (the figures in words), group, is_share and lines: run (its place), label, y, and
    low and high where there is a band; x of a line is that of its run, but for held-out figures, which have their own.
    """
    found = [_reward_chart(runs, names), _held_out_chart(runs, names)]
    found += _each_reward(runs, names)
    found += [_of_kind(_OF_SEVERAL.get(kind.id, kind) if len(runs) > 1 else kind, runs, names) for kind in KINDS]
    found += [_of_kind(kind, runs, names, group="other") for kind in _others(runs)]
    return [chart for chart in found if chart["lines"]]


def _reward_chart(runs: Sequence[ReportedRun], names: Sequence[str]) -> dict[str, object]:
    lines = []
    for place, run in enumerate(runs):
        if run.series.has("reward"):
            has_spread = len(runs) == 1 and run.series.has("reward_std")
            band = _around(run.series, "reward", "reward_std") if has_spread else {}
            label = "mean" if len(runs) == 1 else names[place]
            lines.append({"run": place, "label": label, "y": rounded(run.series.mean("reward")), **band})
    about = "Weighted sum of all rewards, the mean over a step" + (
        "; the band is the standard deviation that TRL logs." if len(runs) == 1 else "."
    )
    return _chart("reward", "Reward", about, lines, _said(runs, names, "reward"), group="rewards")


def _each_reward(runs: Sequence[ReportedRun], names: Sequence[str]) -> list[dict[str, object]]:
    """A chart for each reward function, where there is more than one."""
    means = dict.fromkeys(
        name for run in runs for name in run.series.figures if name.startswith("rewards/") and name.endswith("/mean")
    )
    if len(means) < 2:
        return []
    found = []
    for number_of, name in enumerate(list(means)[:MOST_REWARDS]):
        spread = f"{name.removesuffix('mean')}std"
        lines = []
        for place, run in enumerate(runs):
            if run.series.has(name):
                band = _around(run.series, name, spread) if len(runs) == 1 and run.series.has(spread) else {}
                label = "mean" if len(runs) == 1 else names[place]
                lines.append({"run": place, "label": label, "y": rounded(run.series.mean(name)), **band})
        title = name.removeprefix("rewards/").removesuffix("/mean")
        found.append(_chart(f"reward-{number_of}", f"Reward {title}", "", lines, _said(runs, names, name),
                            group="rewards"))  # fmt: skip
    return found


def _around(series: StepSeries, mean: str, spread: str) -> dict[str, object]:
    both = list(zip(series.mean(mean), series.mean(spread), strict=True))
    return {
        "low": rounded([None if a is None or b is None else a - b for a, b in both]),
        "high": rounded([None if a is None or b is None else a + b for a, b in both]),
    }


def _held_out_chart(runs: Sequence[ReportedRun], names: Sequence[str]) -> dict[str, object]:
    lines, said = [], []
    for place, run in enumerate(runs):
        events = [run.evaluations[step] for step in sorted(run.evaluations)]
        values = [(int(number(one, "step") or 0), number(one, "reward")) for one in events]
        known = [(step, value) for step, value in values if value is not None]
        if not known:
            continue
        label = "reward" if len(runs) == 1 else names[place]
        y = rounded([value for _, value in known])
        lines.append({"run": place, "label": label, "x": [step for step, _ in known], "y": y})
        ends = f"{figure(known[0][1])} → {figure(known[-1][1])}" if len(known) > 1 else figure(known[0][1])
        said.append(ends if len(runs) == 1 else f"{names[place]}: {ends}")
    return _chart("held-out", "Held-out reward", "On rows that are not trained on.", lines, joined(said),
                  group="rewards", has_points=True)  # fmt: skip


def _of_kind(
    kind: ChartKind, runs: Sequence[ReportedRun], names: Sequence[str], group: str = "training"
) -> dict[str, object]:
    lines: list[dict[str, object]] = []
    if len(runs) == 1:
        series = runs[0].series
        has_band = False
        for line in lines_of(kind, runs[0]):
            one: dict[str, object] = {"run": 0, "label": line.label, "y": _values(kind, series.mean(line.name))}
            if line.low and series.has(line.low) and series.has(line.high):
                one |= {"low": rounded(series.least(line.low)), "high": rounded(series.most(line.high))}
            elif kind.spread and series.width > 1 and not has_band:
                one |= {"low": _values(kind, series.least(line.name)), "high": _values(kind, series.most(line.name))}
                has_band = True
            lines.append(one)
    else:
        for place, run in enumerate(runs):
            if run.series.has(kind.lines[0].name):
                y = _values(kind, run.series.mean(kind.lines[0].name))
                lines.append({"run": place, "label": names[place], "y": y})
    told = [line for line in kind.lines if not _is_nothing(runs, line.name)] if len(runs) == 1 else []
    said = joined([_words(kind, runs, names, line) for line in told or kind.lines[:1]])
    return _chart(kind.id, kind.title, kind.about, lines, said, group=group, is_share=kind.is_share)


def lines_of(kind: ChartKind, run: ReportedRun) -> list[Curve]:
    """The lines of a chart for which a run has figures."""
    return [line for line in kind.lines if run.series.has(line.name)]


def _is_nothing(runs: Sequence[ReportedRun], name: str) -> bool:
    """Whether a figure is 0 in all steps, and needs no words beside others."""
    found = [figures for run in runs if (figures := run.series.figures.get(name)) is not None]
    return all(one.least == one.most == 0 for one in found)


def _values(kind: ChartKind, values: Sequence[float | None]) -> list[float | None]:
    if kind.id == "memory":
        values = [None if value is None else value / 2**30 for value in values]
    return rounded(values)


def _words(kind: ChartKind, runs: Sequence[ReportedRun], names: Sequence[str], line: Curve) -> str:
    said = _said(runs, names, line.name, is_share=kind.is_share, per=2**30 if kind.id == "memory" else 1)
    is_one_of_several = len(runs) == 1 and len(lines_of(kind, runs[0])) > 1
    return f"{line.label} {said}" if said and is_one_of_several else said


def _said(
    runs: Sequence[ReportedRun], names: Sequence[str], name: str, *, is_share: bool = False, per: float = 1
) -> str:
    """The first and the last value of each run, means of up to ten steps."""
    parts = []
    for place, run in enumerate(runs):
        if not run.series.has(name):
            continue
        first, last, _ = run.series.figures[name].ends()
        shown = percent if is_share else figure
        ends = f"{shown(first / per)} → {shown(last / per)}"
        parts.append(ends if len(runs) == 1 else f"{names[place]}: {ends}")
    return joined(parts)


def _others(runs: Sequence[ReportedRun]) -> list[ChartKind]:
    """What else was logged as a number: by a reward of the user's own, or by another release of TRL."""
    names = dict.fromkeys(name for run in runs for name in run.series.figures)
    left = [
        name
        for name in names
        if name not in _OF_KINDS and name not in _SAID_ELSEWHERE and not name.startswith("rewards/")
    ]
    return [ChartKind(f"other-{place}", name, (Curve(name, "value"),)) for place, name in enumerate(left[:MOST_OTHERS])]


def _chart(
    identity: str,
    title: str,
    about: str,
    lines: Sequence[Mapping[str, object]],
    said: str,
    *,
    group: str,
    is_share: bool = False,
    has_points: bool = False,
) -> dict[str, object]:
    return {
        "id": identity,
        "title": shown_text(title, NO_FOLDER, _LONGEST_TITLE),
        "about": about,
        "said": said,
        "group": group,
        "is_share": is_share,
        "has_points": has_points,
        "lines": list(lines),
    }


def rounded(values: Sequence[float | None]) -> list[float | None]:
    """Five digits: more are not seen, and take room."""
    return [None if value is None else float(f"{value:.{_DIGITS}g}") for value in values]
