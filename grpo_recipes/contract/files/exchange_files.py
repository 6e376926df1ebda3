"""The request to a part of the worker and its answer: two files in a temporary folder."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.folder_files import write_whole
from grpo_recipes.contract.findings.finding import Finding, as_record

REQUEST_FILE = "request.json"
PROGRESS_FILE = "progress.txt"
ANSWER_FILE = "answer.json"
NOW = "now: "
"""Marks a progress line that is only shown until the next one."""


def write_request(folder: Path, request: Mapping[str, object]) -> None:
    """Writes the request as JSON."""
    (folder / REQUEST_FILE).write_text(json.dumps(request), encoding="utf-8")


def read_request(folder: Path) -> dict[str, Any]:
    """The request."""
    request: dict[str, Any] = json.loads((folder / REQUEST_FILE).read_text(encoding="utf-8"))
    return request


def tell(folder: Path, line: str) -> None:
    """Adds a progress line, which the waiting command prints."""
    with (folder / PROGRESS_FILE).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def answer_of_part(
    code: int, findings: Iterable[Finding] = (), shown: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The answer of a part: the command's exit code, its findings, and the output."""
    return {"exit_code": code, "findings": [as_record(finding) for finding in findings], "shown": shown}


def write_answer(folder: Path, answer: Mapping[str, object]) -> None:
    """Writes the answer as JSON, completely or not at all."""
    write_whole(folder, ANSWER_FILE, json.dumps(answer))


def read_answer(folder: Path) -> dict[str, Any]:
    """The answer. Raises FileNotFoundError if the part ended without one."""
    answer: dict[str, Any] = json.loads((folder / ANSWER_FILE).read_text(encoding="utf-8"))
    return answer
