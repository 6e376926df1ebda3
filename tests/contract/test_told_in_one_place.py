"""The lines under a message are written by findings_text alone, and read back by nobody: findings travel as data."""

import re
from pathlib import Path

import pytest

import grpo_recipes

PACKAGE = Path(grpo_recipes.__file__).parent
WRITTEN_BY_HAND = re.compile(r"= (?:because|fix|note|more):")
# Where they are written, and how often. A job is refused by its shell, before it has found a Python.
PLACES = {"contract/findings/findings_text.py": 4, "render/templates/job.sbatch.j2": 1}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('mistake(f"{path} is gone", because="it was removed", fix="bring it back")', 0),
        ('lines = [f"because: {reason}"]', 0),
        ('f"{path} is gone\\n  = because: it was removed\\n  = fix: bring it back"', 2),
        ('line.startswith("= fix:")', 1),
    ],
    ids=["a finding", "another form", "written by hand", "parsed"],
)
def test_lines_of_a_message_are_recognized(text: str, count: int) -> None:
    assert len(WRITTEN_BY_HAND.findall(text)) == count


def test_the_lines_under_a_message_are_written_in_one_place() -> None:
    sources = (path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".j2", ".sh"))
    found = {path: len(WRITTEN_BY_HAND.findall(path.read_text(encoding="utf-8"))) for path in sources}
    assert {path.relative_to(PACKAGE).as_posix(): count for path, count in found.items() if count} == PLACES
