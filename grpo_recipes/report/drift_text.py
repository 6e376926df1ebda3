"""The drift of a plan as text and as JSON."""

import dataclasses
import json
from collections.abc import Sequence

from grpo_recipes.compare.drift import DriftLine, changes_the_experiment
from grpo_recipes.contract.findings.wording import aligned, shortened
from grpo_recipes.contract.secrets.redact import redact

DRIFT_FORMAT = 1
WIDEST = 44
"""A longer value is cut to this many characters."""


def drift_text(path: str, lines: Sequence[DriftLine]) -> str:
    """One line for each thing that was compared, without a final newline. path: of the plan."""
    cells = [(_state(line), line.what, _values(line)) for line in lines]
    return redact("\n".join([f"since {path} was written", *(f"  {line}" for line in aligned(cells))]))


def _state(line: DriftLine) -> str:
    return f"differs ({line.kind})" if line.state == "differs" else line.state


def _values(line: DriftLine) -> str:
    values = ""
    if line.state == "differs":
        values = f"{_short(line.old)} -> {_short(line.new)}"
    elif line.old is not None:
        values = _short(line.old)
    return f"{values}   {line.why}".strip() if line.why else values


def _short(value: object) -> str:
    """Text without quotes, else JSON, "-" for nothing; of a digest or a commit its first 12 digits."""
    text = "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) in (40, 64) and set(text) <= set("0123456789abcdef"):
        return text[:12]
    return shortened(text, WIDEST)


def drift_json(path: str, lines: Sequence[DriftLine]) -> str:
    """The lines of a drift as JSON, values whole. path: of the plan."""
    document = {
        "drift_format": DRIFT_FORMAT,
        "plan": path,
        "same_experiment": not changes_the_experiment(lines),
        "lines": [dataclasses.asdict(line) for line in lines],
    }
    return redact(json.dumps(document, indent=2, ensure_ascii=False, default=str))
