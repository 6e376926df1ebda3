"""What a vLLM server with a machine of its own tells the trainers, in a file of the run folder that they share."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast

from grpo_recipes.contract.files.bounded_json import read_json
from grpo_recipes.contract.files.folder_files import write_whole

NOTICE_FILE = "vllm_server.json"
State = Literal["starting", "up", "failed", "lost", "stopped", "done"]


@dataclass(frozen=True, slots=True)
class Notice:
    """How the server stands.

    state: starting and up; failed: it did not come up; lost: it died after that; stopped: it was asked to; done: the
    training had ended. attempt: differs at each start. url: None until it is up. reason: of failed, lost and stopped.
    findings: why it failed, as data.
    """

    state: State
    attempt: str
    url: str | None = None
    reason: str | None = None
    findings: tuple[dict[str, Any], ...] = ()

    @property
    def has_ended(self) -> bool:
        """Whether there is no server any more."""
        return self.state not in ("starting", "up")


def put_up(folder: Path, notice: Notice) -> None:
    """Replaces the notice. Raises OSError."""
    write_whole(folder, NOTICE_FILE, json.dumps(asdict(notice), indent=2, ensure_ascii=False) + "\n")


def notice_in(folder: Path) -> Notice | None:
    """The notice, None where there is none, or one that cannot be read."""
    try:
        return Notice(**cast("dict[str, Any]", read_json(folder, NOTICE_FILE)))
    except (OSError, ValueError, TypeError):
        return None
