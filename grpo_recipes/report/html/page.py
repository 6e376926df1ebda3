"""Renders the report page as one HTML file without external references.

Content of a run is untrusted: it is escaped as text, or as JSON that cannot open a tag, and the page's
Content-Security-Policy allows only its own two scripts and no network access.
"""

import base64
import contextlib
import hashlib
import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from grpo_recipes.contract.event_words import clock
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files.folder_files import write_whole
from grpo_recipes.report.html.charts import charts
from grpo_recipes.report.html.outcome_scale import Outcomes, scale_of
from grpo_recipes.report.html.run_data import ReportedRun
from grpo_recipes.report.html.run_section import last_write, template_values, versions
from grpo_recipes.report.html.series import figure, public_text, public_value
from grpo_recipes.report.runs.runs_text import differing

if TYPE_CHECKING:
    from jinja2 import Template

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("uPlot.iife.min.js", "report.js")
STYLES = ("uPlot.min.css", "report.css")
MOST_DIFFERING, COLOURS = 60, 8
_MARK, _HEAD = b"data-written=", 1024
"""The first bytes of a report page contain this."""


def refuse_to_replace(path: Path) -> None:
    """Raises Refusal if the path exists and is not an earlier report."""
    if not os.path.lexists(path):
        return
    head = b""
    if path.is_file() and not path.is_symlink():
        with contextlib.suppress(OSError), path.open("rb") as file:
            head = file.read(_HEAD)
    if _MARK not in head:
        raise Refusal.of(
            f"{path} already exists",
            because="it is not a report, and report only replaces earlier reports",
            fix="-o with a new name",
        )


class SweepTable(NamedTuple):
    """The settings of a sweep: the conclusions, what is compared, rows with the headings first, notes about them.

    keys: the number of columns that name a setting. outcomes: of each row, its mean, the interval and each run's.
    """

    conclusions: Sequence[str]
    outcome: str
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    keys: int
    outcomes: Sequence[Outcomes]


def write_page(runs: Sequence[ReportedRun], path: Path, sweep: SweepTable | None = None) -> int:
    """Writes the page atomically, and returns its size in bytes. Raises Refusal if that fails."""
    content = page(runs, sweep).encode("utf-8", "replace")
    try:
        write_whole(path.parent, path.name, content)
    except OSError as problem:
        raise Refusal.of(
            f"{path} cannot be written", because=str(problem.strerror or problem), fix="-o FILE writes it elsewhere"
        ) from None
    return len(content)


def page(runs: Sequence[ReportedRun], sweep: SweepTable | None = None) -> str:
    """The HTML of one run, or of several side by side. sweep: the table of their sweep, whose settings have colours."""
    names = _names(runs)
    settings = {} if sweep is None else {name: at for at, each in enumerate(sweep.outcomes) for name in each.names}
    colours = [settings.get(run.listed.name, index) % COLOURS for index, run in enumerate(runs)]
    shown = [
        {**template_values(run, index), "name": names[index], "colour": colours[index]}
        for index, run in enumerate(runs)
    ]
    drawn = charts(runs, names)
    data = {"x": [run.series.x for run in runs], "colours": colours, "charts": drawn}
    scripts, styles = [_asset(name) for name in SCRIPTS], [_asset(name) for name in STYLES]
    return _template().render(
        policy=_policy(scripts, styles),
        scripts=scripts,
        styles=styles,
        data=_json(data),
        title=names[0] if len(runs) == 1 else f"{len(runs)} runs",
        runs=shown,
        differing=_differing(runs) if len(runs) > 1 else [],
        charts=drawn,
        written=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        written_unix=int(time.time()),
        last_word=max((last_write(run) for run in runs), default=""),
        running=_running(runs),
        sweep=sweep,
        COLOURS=COLOURS,
        scale=None if sweep is None else scale_of(sweep.outcomes),
    )


def _running(runs: Sequence[ReportedRun]) -> str:
    """The note about runs that have not ended, "" if all have."""
    count = sum(run.is_running for run in runs)
    if not count or len(runs) == 1:
        return "still running" if count else ""
    return f"{count} of {len(runs)} runs still running"


def _names(runs: Sequence[ReportedRun]) -> list[str]:
    """The names of the runs: their folders, numbered if several have the same name."""
    names = [public_text(run.listed.name, run.place, 80) for run in runs]
    return [name if names.count(name) == 1 else f"{name} ({index + 1})" for index, name in enumerate(names)]


def _differing(runs: Sequence[ReportedRun]) -> list[dict[str, Any]]:
    """The planned values and versions that differ between runs."""
    keys = differing([run.listed for run in runs])[:MOST_DIFFERING]
    rows = [
        {
            "key": public_text(key, runs[0].place),
            "values": [
                public_value(key, run.listed.values[key], run.place) if key in run.listed.values else "-"
                for run in runs
            ],
        }
        for key in keys
    ]
    packages = [dict(versions(run)) for run in runs]
    for name in dict.fromkeys(name for package in packages for name in package):
        values = [package.get(name) for package in packages]
        if len(set(values)) > 1:
            rows.append({"key": name, "values": [value or "-" for value in values]})
    return rows[: 2 * MOST_DIFFERING]


@cache
def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


@cache
def _template() -> "Template":
    # Imported here, since only this command renders a page and jinja2 costs 25 ms.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(figure=figure, clock=clock)
    return environment.get_template("report.html.j2")


def _policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """A Content-Security-Policy that allows these scripts and styles by digest, the page's images, and nothing else."""
    return (
        f"default-src 'none'; img-src data:; script-src {_digests(scripts)}; style-src {_digests(styles)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _digests(texts: Sequence[str]) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


def _json(value: object) -> str:
    """JSON for a script element that is not executed, in which no tag, comment or entity can begin."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
