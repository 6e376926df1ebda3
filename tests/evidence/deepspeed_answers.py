"""Answers of in_deepspeed.py, one process for many cases."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LIMIT_S = 300


def answers(cases: dict[str, dict[str, Any]], folder: Path) -> dict[str, dict[str, Any]]:
    """What each case came to, by its name: result, raised, text. A case has call and arguments."""
    variables = {"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("in_deepspeed.py"))],
        input=json.dumps(list(cases.values())),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        cwd=folder,
        env={**os.environ, **variables, "TORCH_EXTENSIONS_DIR": str(folder / "extensions")},
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(cases), done.stderr[-2000:]
    return dict(zip(cases, lines, strict=True))


def step(**config: Any) -> dict[str, Any]:
    """The case of one step under a DeepSpeed configuration."""
    return {"call": "step", "arguments": {"config": config}}
