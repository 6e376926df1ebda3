"""What was recorded of a run beside its figures: proofs, time, memory, versions, and where it came from."""

from collections.abc import Mapping

from grpo_recipes.contract import plan_sections
from grpo_recipes.contract.event_words import clock
from grpo_recipes.contract.metrics import number
from grpo_recipes.contract.run_record import launches_text
from grpo_recipes.report.html.reported_run import ReportedRun
from grpo_recipes.report.html.series import figure, gib, joined, percent
from grpo_recipes.report.plan_text import lineage_lines

_PHASES = ("load", "generate", "score", "update", "sync", "save", "evaluation")


def memory(run: ReportedRun) -> list[tuple[str, str, str, str]]:
    """Each phase with its peak, what was estimated for it, and their ratio."""
    found = []
    for phase in _PHASES:
        one = run.record.memory.get(phase)
        if not isinstance(one, Mapping):
            continue
        measured, estimated = number(one, "measured"), number(one, "estimated")
        ratio = "" if not measured or not estimated else f"{measured / estimated:.2f}"
        found.append((phase, gib(measured), gib(estimated), ratio))
    return found


def times(run: ReportedRun) -> list[tuple[str, str]]:
    """Where the time went, as far as it was measured."""
    record, duration = run.record, run.record.duration or {}
    each, share = number(duration, "seconds_per_step"), number(duration, "generation_share")
    steps = run.series.figures.get("step_time")
    rows = [
        ("training, by the clock", "" if record.train_wall_s is None else clock(record.train_wall_s)),
        ("training, CPU seconds", "" if record.train_cpu_s is None else figure(record.train_cpu_s)),
        ("a step, the median", "" if each is None else f"{figure(each)} s"),
        ("  of it generation", "" if share is None else percent(share)),
        ("the slowest step", "" if steps is None or not steps.values else f"{figure(max(steps.values))} s"),
        ("all evaluations", f"{figure(run.evaluation_seconds)} s" if run.evaluation_seconds else ""),
        ("launches", str(record.launches) if launches_text(record) else ""),
        ("started", run.plain(record.started or "")),
        ("ended", run.plain(record.ended or "")),
    ]
    return [(name, text) for name, text in rows if text]


def checks(run: ReportedRun) -> str:
    """How many values of the live trainer were compared with the plan."""
    checks = [one for one in run.record.checks or () if isinstance(one, Mapping)]
    wrong = sum(one.get("ok") is not True for one in checks)
    if not checks:
        return ""
    return f"{len(checks)} values of the live trainer compared with the plan, " + (
        f"{wrong} of them are others" if wrong else "all as planned"
    )


def lineage(run: ReportedRun) -> list[str]:
    plan = run.planned
    lines = [] if plan is None else lineage_lines(plan_sections.lineage(plan.ancestor, plan.extends))
    return [run.plain(line) for line in lines]


def versions(run: ReportedRun) -> list[tuple[str, str]]:
    """Packages and GPUs of the stack that the run was planned for."""
    stack = run.plan.get("stack")
    stack = stack if isinstance(stack, Mapping) else {}
    packages = stack.get("packages")
    known = {"grpo-recipes": run.plan.get("grpo_recipes"), "python": stack.get("python")}
    known |= packages if isinstance(packages, Mapping) else {}
    rows = [(run.plain(name), run.plain(value)) for name, value in known.items() if isinstance(value, str)]
    gpus = stack.get("gpus")
    names = [str(one.get("name")) for one in gpus if isinstance(one, Mapping)] if isinstance(gpus, list) else []
    counted = joined([f"{names.count(name)} x {run.plain(name)}" for name in dict.fromkeys(names)])
    return [*rows[:100], ("GPUs", counted or "none")]
