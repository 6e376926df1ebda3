"""What happened to the server, told in run.json and metrics.jsonl and on the log."""

import json
import os
import time
from pathlib import Path
from typing import Any

from grpo_recipes.contract.event_words import server_line
from grpo_recipes.contract.files.folder_files import open_to_append, remove
from grpo_recipes.worker._shared.metrics import append_line
from grpo_recipes.worker._shared.record import Record


class Story:
    """Tells of the server while no trainer writes, or in whole lines beside it."""

    def __init__(self, folder: Path, record: Record, *, resumed: bool) -> None:
        self._metrics = folder / "metrics.jsonl"
        self._record = record
        if not resumed:
            remove(folder, self._metrics.name)  # of an attempt that came to nothing
            record.update(vllm_server={"restarts": []})
        server = record.read().get("vllm_server")
        told = server.get("restarts") if isinstance(server, dict) else None
        self._deaths: list[dict[str, Any]] = told if isinstance(told, list) else []

    def starting(self) -> None:
        """The server was started."""
        self._tell("starting")

    def up(self, url: str, seconds: float) -> None:
        """The server can work."""
        self._tell("up", url=url, seconds=round(seconds, 1))

    def died(self, how: str, restart: int, of: int) -> None:
        """The server died, and is started again; restart: which of how many."""
        death = {"time": round(time.time(), 3), "step": self._record.read().get("step"), "how": how}
        self._deaths.append(death)
        self._record.reopen(vllm_server={"restarts": list(self._deaths)})
        self._tell("died", how=how, restart=restart, of=of)

    def is_failure(self) -> bool:
        """Whether the trainer ended without a reason of its own to stop."""
        return self._record.read().get("status") in ("running", "failed")

    def _tell(self, state: str, **values: Any) -> None:
        step = self._record.read().get("step") or 0
        event = {"event": "server", "step": step, "time": round(time.time(), 3), "state": state, **values}
        print(server_line(event), flush=True)
        file = open_to_append(self._metrics.parent, self._metrics.name)
        try:
            append_line(file, json.dumps(event, ensure_ascii=False))
        finally:
            os.close(file)
