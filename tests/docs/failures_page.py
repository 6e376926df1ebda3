"""docs/failures.md: failures that people met in public, with the finding that each gets here."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import make_examples
import yaml
from rule_cases import Case

PAGE = Path(__file__).parents[2] / "docs" / "failures.md"
FAILURES = Path(__file__).with_name("failures.yaml")
OPENING = """\
# Failures met in public

Each row is a failure that somebody reported, with links to the threads, and what grpo-run does about it. `make docs`
writes this page from `tests/docs/failures.yaml`: a test checks that each recipe of the first table gets its finding,
and that the test named in the second one exists. The threads describe other programs and releases; many are closed.

## Found by `grpo-run validate`

In a fraction of a second, without torch and without a GPU.
"""
LATER = """\
## Found or repaired later

In a preflight, when a run starts, in its first steps, or at its end.
"""


@dataclass(frozen=True, slots=True)
class Failure:
    """A reported failure. The fields are those of failures.yaml."""

    happened: str
    where: list[str]
    finding: str
    recipe: dict[str, Any] = field(default_factory=dict)
    stack: dict[str, str | None] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    answer: str = ""
    proved_by: str = ""

    def links(self) -> str:
        """The threads as links, such as `trl 3089`."""
        parts = [one.split("/") for one in self.where]
        return ", ".join(f"[{part[1]} {part[3]}](https://github.com/{'/'.join(part)})" for part in parts)

    def error(self) -> str:
        """The first line of the finding. Raises StopIteration if the recipe does not get it."""
        found = make_examples.findings_of(Case(self.finding, "", self.recipe, self.stack, self.files))
        return next(one.message for one in found if one.rule == self.finding and one.severity == "error")


def failures() -> list[Failure]:
    """Every failure, in the order of the page."""
    return [Failure(**written) for written in yaml.safe_load(FAILURES.read_text(encoding="utf-8"))]


def texts() -> dict[Path, str]:
    """What the file should hold."""
    return {PAGE: "\n".join(_lines())}


def _lines() -> Iterator[str]:
    checked = [one for one in failures() if not one.proved_by]
    yield from (OPENING, "| what happened | what `validate` prints |", "|---|---|")
    yield from (f"| {one.happened} {one.links()} | `{_cell(one.error())}` {_rule(one)} |" for one in checked)
    yield from ("", LATER, "| what happened | what grpo-run does | proved by |", "|---|---|---|")
    for one in failures():
        if one.proved_by:
            yield f"| {one.happened} {one.links()} | {one.answer} {_rule(one)} | `{one.proved_by.partition('::')[0]}` |"
    yield ""


def _rule(failure: Failure) -> str:
    return f"[{failure.finding}](rules/{failure.finding[:3]}.md#{failure.finding.lower()})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'")
