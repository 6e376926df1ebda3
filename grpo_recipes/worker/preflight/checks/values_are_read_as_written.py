"""Columns that templates read have the values that the file shows.

What: columns of a local .csv file in which every value is a number and one has leading zeros, as 007, or, if
exact_match compares it, zeros at the end, as 1.50; and columns with the texts true or false that a template tests with
`if` or `is false`.
Why: datasets reads 007 as the number 7 and 1.50 as 1.5, so the prompt and the right answer differ from the file. A text
is never `is false`, and the text false counts as true.
Fix: a .jsonl file with "007" in quotes; a comparison with the text, as {% if hint == 'true' %}.
Example: column code has 007 in row 1, which is read as the number 7
Source: datasets' packaged_modules/csv/csv.py (pandas.read_csv).
"""

import csv
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL053"
MOST_ROWS = 10_000
LEADING_ZERO = re.compile(r"\s*[-+]?0\d+(\.\d*)?\s*")
LAST_ZERO = re.compile(r"\s*[-+]?\d*\.\d+0\s*")


def check(inputs: Seen) -> Iterator[Finding]:
    data = inputs.plan.data
    if inputs.data is None:
        return
    templates: dict[tuple[str, ...], str] = {("dataset", "prompt"): data.prompt or ""}
    templates |= {("dataset", "columns", name): text for name, text in data.columns.items()}
    names = inputs.data.rows.column_names
    if str(data.path).endswith(".csv") and Path(data.path).is_file():
        with open(data.path, encoding="utf-8-sig", newline="") as file:
            rows = list(islice(csv.DictReader(file), MOST_ROWS))
        for name in names:
            is_number = "int" in str(inputs.data.rows.features[name]) or "float" in str(inputs.data.rows.features[name])
            is_compared = any(reward.target == "exact_match" for reward in inputs.plan.rewards) and any(
                name in text for text in data.columns.values()
            )
            zeros = [
                index
                for index, row in enumerate(rows)
                if LEADING_ZERO.fullmatch(row.get(name) or "")
                or (is_compared and LAST_ZERO.fullmatch(row.get(name) or ""))
            ]
            if is_number and zeros:
                yield _of_zeros(name, zeros[0] + 1, rows[zeros[0]][name])
    for path, text in templates.items():
        for name in names:
            test = re.search(
                rf"\bif\s+(not\s+)?{name}\s*(%|\band\b|\bor\b)|\b{name}\s+is\s+(not\s+)?(true|false)", text
            )
            values = (
                {value for value in islice(inputs.data.rows[name], MOST_ROWS) if isinstance(value, str)} if test else ()
            )
            if values and {value.strip().lower() for value in values} <= {"true", "false"}:
                yield _of_texts(path, name, min(values))


def _of_zeros(name: str, row: int, value: str) -> Finding:
    return warning(
        f"column {name} has {value} in row {row}, which is read as a number without its zeros",
        ("dataset", "path"),
        because="datasets reads a column of a .csv file in which every value is a number as numbers",
        fix=f'a .jsonl file with "{value}" in quotes',
    )


def _of_texts(path: tuple[str, ...], name: str, value: str) -> Finding:
    return warning(
        f"the template tests {name}, whose values are texts such as {value!r}",
        path,
        because="every text that is not empty counts as true, false included, and none `is false`",
        fix=f"{name} == {value!r}",
    )
