"""run.json: how the run stands and how it ended. It is replaced whole, so a reader never sees half of it."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grpo_recipes.trust.redact import redact_value

RECORD_FORMAT = 1
# What another process said before this one began anew: how often the vLLM server was started again.
_KEPT = ("vllm_server",)


class Record:
    """The run.json of a run folder. Rank 0 keeps it; another rank writes only its own failure.

    A status that ends the run is never overwritten by another rank: the first failure is the cause of the
    rest.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        self._path = folder / "run.json"
        self._rank = rank

    def start(self, *, resumed: bool) -> None:
        """Says that the run is running. A resumed run keeps what the record said before."""
        if self._rank != 0:
            return
        before = self.read()
        kept = before if resumed else {key: before[key] for key in _KEPT if key in before}
        self._write(
            {
                "evaluation": {},
                "metrics": {},
                "checkpoint": None,
                "guards": [],
                **kept,
                "run": RECORD_FORMAT,
                "status": "running",
                "step": kept.get("step", 0),
                "max_steps": None,
                "started": _now(),
                "ended": None,
                "exit_code": None,
                "message": None,
                "checks": [],
                "proofs": [],
                "guards_not_seen": [],
                "final": None,
                "train_cpu_s": None,
                "train_wall_s": None,
            }
        )

    def update(self, **values: Any) -> None:
        """Sets keys while the run is running; does nothing on other ranks than 0 and after the end."""
        content = self.read()
        if self._rank == 0 and content.get("status") == "running":
            self._write({**content, **values})

    def update_evaluation(self, **values: Any) -> None:
        """Sets keys of the `evaluation` mapping."""
        self.update(evaluation={**self.read().get("evaluation", {}), **values})

    def evaluation(self) -> dict[str, Any]:
        """The `evaluation` mapping as it is now."""
        found: dict[str, Any] = self.read().get("evaluation", {})
        return found

    def guards(self) -> list[dict[str, Any]]:
        """The guards that spoke, as they are now."""
        found: list[dict[str, Any]] = self.read().get("guards", [])
        return found

    def reopen(self, **values: Any) -> None:
        """Says that the run goes on after all, and sets keys."""
        self._write({**self.read(), "status": "running", "ended": None, "exit_code": None, "message": None, **values})

    def end(self, status: str, exit_code: int, message: str | None = None, *, last_word: bool = False) -> bool:
        """Says how the run ended; returns false, and writes nothing, if it is not this rank's to say.

        A good end is rank 0's, which still has to save when the others are done; a failure is the first one's.
        last_word: replaces what was said before, by the one who knows why it failed.
        """
        content = self.read()
        is_told = content.get("status", "running") != "running" and not last_word
        if is_told or (self._rank != 0 and status not in ("failed", "stopped")):
            return False
        self._write({**content, "status": status, "exit_code": exit_code, "message": message, "ended": _now()})
        return True

    def read(self) -> dict[str, Any]:
        """What the record says now, {} when there is none."""
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def _write(self, content: dict[str, Any]) -> None:
        temporary = self._path.with_name(f".run.json.{self._rank}.{os.getpid()}")
        temporary.write_text(json.dumps(redact_value(content), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(temporary, self._path)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
