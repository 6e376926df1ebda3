"""What `grpo-run preflight` is called with, and what it answers."""

import hashlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "recipes" / "quickstart.yaml"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the command printed, how it ended, and what it left in the temporary folder."""

    code: int
    out: str
    err: str
    left: list[str]

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Those of preflight; rules about the recipe have tests of their own."""
        found: list[dict[str, Any]] = json.loads(self.out)["findings"]
        return [finding for finding in found if finding["rule"].startswith("PFL")]

    def said(self) -> dict[tuple[str, str], list[str]]:
        """Messages by id and key."""
        found: dict[tuple[str, str], list[str]] = {}
        for finding in self.findings:
            found.setdefault((finding["rule"], finding["key"]), []).append(finding["message"])
        return found


def command(folder: Path, *arguments: str, python: str = sys.executable) -> tuple[list[str], dict[str, str]]:
    """The command line and its environment; code of the folder is allowed."""
    (folder / "tmp").mkdir(exist_ok=True)
    shas = [hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.glob("*.py")]
    allowed = [word for sha in shas for word in ("--allow-code", sha)]
    environment = os.environ | {
        "XDG_CONFIG_HOME": str(folder / "config"),
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(folder / "tmp"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    return [python, "-m", "grpo_recipes.cli.main", "preflight", *arguments, *allowed], environment
