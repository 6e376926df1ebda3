"""Reads one run folder for a report, whether the run has ended or is still training."""

import os
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files.bounded_json import parse_json
from grpo_recipes.contract.files.folder_files import read_bytes
from grpo_recipes.contract.integrity.run_folder import PLAN_FILE
from grpo_recipes.contract.metric_names import GROUPS_WITHOUT_VARIANCE
from grpo_recipes.contract.metrics import COMPLETIONS_FILE, METRICS_FILE, Event, number, read_all, without_variance
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.read_plan import plan_of
from grpo_recipes.contract.run_record import WARM_STEP, RunRecord, read_record
from grpo_recipes.lock.read_lock import LARGEST_PLAN_BYTES
from grpo_recipes.report.html.series import StepSeries, public_text, public_value, stretch_width
from grpo_recipes.report.runs.run_row import ListedRun, one_run

MOST_STRETCHES = 16


class KeptCompletion(NamedTuple):
    """A completion of completions.jsonl."""

    step: int
    row: Mapping[str, object]

    @property
    def total(self) -> float | None:
        """The weighted reward, None if unknown."""
        return number(self.row, "reward")


def completions_of_event(event: Mapping[str, object]) -> list[KeptCompletion]:
    """The completions of a line; malformed ones are skipped."""
    step, rows = number(event, "step"), event.get("rows")
    if event.get("event") != "completions" or step is None or step < 0 or not isinstance(rows, list):
        return []
    return [KeptCompletion(int(step), row) for row in rows if isinstance(row, Mapping)]


def choose_examples(completions: Sequence[KeptCompletion]) -> list[tuple[str, KeptCompletion]]:
    """The best, worst and a random completion of each stretch of steps, in order, without repetition."""
    width = stretch_width({completion.step for completion in completions}, MOST_STRETCHES)
    picks = []
    for _, of_stretch in groupby(sorted(completions, key=lambda c: c.step), key=lambda c: c.step // width):
        stretch = list(of_stretch)
        judged = sorted((c for c in stretch if c.total is not None), key=lambda c: c.total or 0.0)
        kinds = {id(stretch[0]): ("drawn", stretch[0])}
        if judged and judged[0].total != judged[-1].total:
            kinds |= {id(judged[0]): ("worst", judged[0]), id(judged[-1]): ("best", judged[-1])}
        picks += sorted(kinds.values(), key=lambda pick: pick[1].step)
    return picks


MOST_EVALUATIONS, MOST_SETS = 200, 20
MOST_GUARD_WORDS = 40
ENDED = ("completed", "failed", "stopped", "interrupted", "killed", "damaged record", "damaged plan")


class ReportedRun:
    """The content of a run folder. Raises Refusal if the folder is not a run.

    listed, record: as `grpo-run runs` and run.json have them. plan: as data, {} if it cannot be read; planned: the same
    as a plan of this release. evaluations: events of held-out rows, by set name ("" for one without) and step;
    sets_left_out: names beyond MOST_SETS. guards: the last event of each guard. place: the folder, absolute.
    """

    def __init__(self, folder: str) -> None:
        path, self.place = Path(folder), os.path.abspath(folder)
        listed = one_run(path)
        if listed is None:
            raise Refusal.of(
                f"{path} is not a run folder",
                because=f"it has neither {PLAN_FILE} nor launch.sh",
                fix="name the folder of a run; without --out they are in runs/",
            )
        self.listed: ListedRun = listed._replace(name=os.path.basename(self.place))
        self.record: RunRecord = read_record(folder) or RunRecord(status=listed.status)
        self.plan: Mapping[str, object] = {}
        self.planned: Plan | None = None
        if listed.status != "damaged plan":
            self._read_plan(path)
        self.series = StepSeries()
        self.evaluations: dict[str, dict[float, Event]] = {}
        self.sets_left_out: set[str] = set()
        self.guards: dict[str, Event] = {}
        self.evaluation_seconds = 0.0
        self.last_time: float | None = None
        for event in read_all(str(path / METRICS_FILE)):
            self._take(event)
        self.kept: list[KeptCompletion] = []
        for event in read_all(str(path / COMPLETIONS_FILE)):
            self.kept += completions_of_event(event)

    def plain(self, value: object) -> str:
        """A text of this run, safe to show."""
        return public_text(value, self.place)

    def plain_value(self, row: Mapping[str, object]) -> str:
        """The value of a planned setting, safe to show."""
        return public_value(str(row.get("key")), row.get("value"), self.place)

    def plain_digest(self, value: object) -> str:
        """A text of this run; a digest is cut to 12 digits."""
        text = self.plain(value)
        return text[:12] if len(text) in (40, 64) and set(text) <= set("0123456789abcdef") else text

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended, as far as this machine can tell."""
        return self.listed.status in ENDED

    @property
    def is_running(self) -> bool:
        """Whether the run was started and has not ended, as far as this machine can tell."""
        return self.listed.status == "running"

    def _take(self, event: Event) -> None:
        kind, step = event.get("event"), number(event, "step")
        self.last_time = number(event, "time") or self.last_time
        if step is None or step < 0 or step > 1e12:
            return
        if kind == "step":
            share = without_variance(event)
            own = {} if share is None else {GROUPS_WITHOUT_VARIANCE: share}
            self.series.add(int(step), {**event, **own})
        elif kind == "evaluation":
            self.evaluation_seconds += number(event, "seconds") or 0.0
            name = event.get("set")
            name = name if isinstance(name, str) else ""
            if name not in self.evaluations and len(self.evaluations) == MOST_SETS:
                self.sets_left_out.add(name)
                return
            of_set = self.evaluations.setdefault(name, {})
            of_set[int(step) + 0.5 * (WARM_STEP in event)] = event
            if len(of_set) > MOST_EVALUATIONS:  # keep the first one for comparison
                del of_set[sorted(of_set)[1]]
        elif kind == "guard" and len(self.guards) < MOST_GUARD_WORDS:
            self.guards[str(event.get("name"))] = event

    def _read_plan(self, folder: Path) -> None:
        try:
            content = parse_json(read_bytes(folder, PLAN_FILE, LARGEST_PLAN_BYTES))
        except (OSError, ValueError, RecursionError):
            return
        if not isinstance(content, dict):
            return
        self.plan = content
        try:
            self.planned = plan_of(content, complete=False)
        except (ValueError, TypeError, AttributeError, RecursionError):
            self.planned = None
