"""What a command asks of a part of the worker, and what that answers: two files of their temporary folder."""

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
"""Begins a line of progress that is only shown until the next one."""


def write_request(folder: Path, request: Mapping[str, object]) -> None:
    """Says what is asked for, in JSON values."""
    (folder / REQUEST_FILE).write_text(json.dumps(request), encoding="utf-8")


def read_request(folder: Path) -> dict[str, Any]:
    """What is asked for."""
    request: dict[str, Any] = json.loads((folder / REQUEST_FILE).read_text(encoding="utf-8"))
    return request


def tell(folder: Path, line: str) -> None:
    """Adds a line that says what the part is doing; the command that waits for its answer prints it."""
    with (folder / PROGRESS_FILE).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def ended(code: int, findings: Iterable[Finding] = (), shown: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The answer of a part: the exit code of the command, what it has to say, and what it shows."""
    return {"exit_code": code, "findings": [as_record(finding) for finding in findings], "shown": shown}


def write_answer(folder: Path, answer: Mapping[str, object]) -> None:
    """Answers in JSON values, whole or not at all."""
    write_whole(folder, ANSWER_FILE, json.dumps(answer))


def read_answer(folder: Path) -> dict[str, Any]:
    """The answer. Raises FileNotFoundError where the part ended before it could."""
    answer: dict[str, Any] = json.loads((folder / ANSWER_FILE).read_text(encoding="utf-8"))
    return answer
