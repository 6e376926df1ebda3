"""Problems of a run, worst first, as reported by the worker, the guards or the figures."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from grpo_recipes.contract.integrity.run_folder import RECORD_FILE
from grpo_recipes.contract.metric_names import GROUPS_WITHOUT_VARIANCE
from grpo_recipes.contract.metrics import METRICS_FILE, mappings
from grpo_recipes.contract.run_verdict import verdicts
from grpo_recipes.launch.summary import guard_span
from grpo_recipes.report.html.run_data import ReportedRun
from grpo_recipes.report.html.series import StepSeries, figure

BAD, WARNING, NOTE = "bad", "warning", "note"
_RANK = (BAD, WARNING, NOTE)
MOST = 30


class RunProblem(NamedTuple):
    """One problem. level: bad, warning or note. page: the id that `grpo-run explain` takes, "" for none."""

    level: str
    title: str
    because: tuple[str, ...] = ()
    fix: str = ""
    page: str = ""


def run_problems(run: ReportedRun) -> list[RunProblem]:
    """All known problems; findings of the plan come last."""
    ended = _of_findings(run)
    reported = {problem.page for problem in ended}
    of_guards = [problem for problem in _of_guards(run) if problem.page not in reported]
    reported |= {problem.page for problem in of_guards}
    constant = [problem for problem in _constant(run.series) if problem.page not in reported]
    files = [*_of_changes(run), *_of_lost_figures(run)]
    problems = [
        *files,
        *ended,
        *_of_status(run, ended),
        *of_guards,
        *constant,
        *_of_verdicts(run),
        *_of_server(run),
        *_of_plan(run),
    ]
    return sorted(problems, key=lambda problem: _RANK.index(problem.level))[:MOST]


def _of_changes(run: ReportedRun) -> list[RunProblem]:
    """The files that changed after grpo-run wrote them."""
    if not run.listed.changed or run.listed.status.startswith("damaged"):
        return []
    because = tuple(run.plain(line) for line in run.listed.changed)
    fix = "grpo-run RUNDIR --verify names every changed file; restore them from a copy"
    return [RunProblem(BAD, "files of the run were changed after they were written", because, fix)]


def _of_lost_figures(run: ReportedRun) -> list[RunProblem]:
    """A missing or damaged metrics.jsonl, which would look like a run that trained nothing."""
    if not run.record.step or not run.has_ended or run.last_time is not None:
        return []
    because = (f"{RECORD_FILE} says that {run.record.step} steps were trained",)
    return [RunProblem(WARNING, f"{METRICS_FILE} has no readable line", because, "restore it from a copy")]


def _of_findings(run: ReportedRun) -> list[RunProblem]:
    """The findings in run.json that ended the run."""
    problems = []
    for record in mappings(run.record.findings):
        level = BAD if record.get("severity") == "error" else WARNING
        lines = [*_texts(record.get("seen")), *_texts(record.get("because")), *_texts(record.get("notes"))]
        fix, page = record.get("fix"), record.get("id")
        problems.append(
            RunProblem(
                level,
                run.plain(record.get("message") or "the run was stopped"),
                tuple(run.plain(line) for line in lines),
                run.plain(fix) if isinstance(fix, str) else "",
                run.plain(page) if isinstance(page, str) else "",
            )
        )
    return problems


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _of_status(run: ReportedRun, ended: Sequence[RunProblem]) -> list[RunProblem]:
    """An unsuccessful end without a finding."""
    status, message = run.listed.status, run.record.message
    lines = tuple(run.plain(line) for line in message.splitlines()[:12]) if message else ()
    if status == "killed":
        fix = "grpo-run RUNDIR --resume continues it from its last checkpoint"
        return [RunProblem(BAD, "the process was killed, or its machine went down", lines, fix)]
    if status == "interrupted":
        return [RunProblem(WARNING, "interrupted; can be resumed", lines, "grpo-run RUNDIR --resume")]
    if status.startswith("damaged"):
        return [RunProblem(BAD, status, tuple(run.plain(line) for line in run.listed.because))]
    if status == "incomplete":
        return [RunProblem(BAD, "the run folder is incomplete", (), "write it again with grpo-run RECIPE --out RUNDIR")]
    if status in ("failed", "stopped") and not ended:
        return [
            RunProblem(
                BAD, lines[0] if lines else status, lines[1:], "train.log in the run folder has the whole output"
            )
        ]
    return []


def _of_guards(run: ReportedRun) -> list[RunProblem]:
    """The guards that fired, with their latest reason and fix; older releases recorded neither."""
    problems = []
    for guard in mappings(run.record.guards):
        name = str(guard.get("name"))
        event = run.guards.get(name, {})
        level = {"stop": BAD, "warn": WARNING}.get(str(guard.get("action")), NOTE)
        title = f"{name}: {event['message']}" if event.get("message") else name
        problems.append(
            RunProblem(
                level,
                run.plain(title),
                tuple(run.plain(line) for line in [guard_span(guard), *_texts(event.get("because"))] if line),
                run.plain(event["fix"]) if isinstance(event.get("fix"), str) else "",
                run.plain(str(guard.get("id") or "")),
            )
        )
    return problems


def _constant(series: StepSeries) -> Iterator[RunProblem]:
    """A reward that never varied, in a run too short for the guard, or with the guard off."""
    known = {name: each.values for name, each in series.figures.items() if series.has(name)}
    shares, rewards = known.get(GROUPS_WITHOUT_VARIANCE), known.get("reward")
    if shares and min(shares) >= 1:
        because = (
            f"the reward was {figure(rewards[0])} for every completion" if rewards and len(set(rewards)) == 1 else ""
        )
        yield RunProblem(
            BAD,
            f"constant reward: in {len(shares)} steps no two completions of a prompt had different rewards",
            tuple(line for line in (because, "the advantages and the gradient are zero: nothing is learned") if line),
            "grpo-run preflight RECIPE shows what the rewards return; then try easier prompts, more generations, a "
            "higher temperature, or a reward with partial credit",
            "GRD001",
        )


def _of_verdicts(run: ReportedRun) -> list[RunProblem]:
    """The verdicts that are warnings."""
    return [
        RunProblem(
            WARNING, run.plain(verdict.text), tuple(map(run.plain, verdict.because)), run.plain(verdict.fix), verdict.id
        )
        for verdict in verdicts(run.record)
        if verdict.level == "warning"
    ]


def _of_server(run: ReportedRun) -> list[RunProblem]:
    deaths = mappings((run.record.vllm_server or {}).get("restarts"))
    if not deaths:
        return []
    lines = tuple(run.plain(f"at step {death.get('step')} it {death.get('how')}") for death in deaths[:5])
    return [RunProblem(WARNING, f"the vLLM server was restarted {len(deaths)} times", lines)]


def _of_plan(run: ReportedRun) -> list[RunProblem]:
    return [
        RunProblem(NOTE, f"finding of the plan: {run.plain(text)}") for text in _texts(run.plan.get("findings"))[:10]
    ]
