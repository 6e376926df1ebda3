"""Answers of in_deepspeed.py, each from a separate process of the library."""

from pathlib import Path
from typing import Any

from library import Library


def answers(cases: dict[str, dict[str, Any]], library: Library, folder: Path) -> dict[str, dict[str, Any]]:
    """What each case came to, by its name: result, raised, text. A case has call and arguments.

    folder: gets extensions/ if DeepSpeed compiles something.
    """
    results = {}
    for name, case in cases.items():
        answer = library.call("in_deepspeed.answered", extensions=str(folder / "extensions"), **case)
        results[name] = {"result": answer.result, "raised": answer.raised, "text": answer.text}
    return results


def step(**config: Any) -> dict[str, Any]:
    """The case of one step under a DeepSpeed configuration."""
    return {"call": "step", "arguments": {"config": config}}
