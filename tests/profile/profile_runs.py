"""What `grpo-run profile` answers, and the rows that it writes."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "recipes" / "quickstart.yaml"
COMMAND = ("-m", "grpo_recipes.cli.main", "profile")
FEW = 40
"""Two blocks and a half of the quickstart: 128 completions at once are 16 rows with 8 answers."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How the command ended, and what it printed."""

    code: int
    out: str
    err: str


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]
