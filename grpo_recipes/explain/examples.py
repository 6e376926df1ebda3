"""An example of every id with what is really said of it, and what each was proved with; made by `make docs`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

EXAMPLES = Path(__file__).with_name("examples.json")


@dataclass(frozen=True, slots=True)
class Example:
    """recipe: the keys that matter, as YAML. stack: what is not usual about the stack, "" for nothing.

    said: the finding, or the line of the plan. fixed: the keys after the fix, "" without one. proved_by: the test file
    that shows it on the real library, or why the rule is stricter than that, "" where there is neither.
    """

    recipe: str = ""
    stack: str = ""
    said: str = ""
    fixed: str = ""
    proved_by: str = ""


@cache
def examples() -> Mapping[str, Example]:
    """The examples by id."""
    rows = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    return {rule_id: Example(**row) for rule_id, row in rows.items()}
