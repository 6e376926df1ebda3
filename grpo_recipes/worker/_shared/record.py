"""Writes run.json: the status of the run and how it ended. The file is replaced atomically."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from grpo_recipes.contract.files.bounded_json import read_mapping
from grpo_recipes.contract.files.folder_files import remove_unfinished, rename, write_whole
from grpo_recipes.contract.files.folder_lock import holder, this_launch
from grpo_recipes.contract.findings.finding import as_record
from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.integrity.run_folder import record_fault, record_text
from grpo_recipes.contract.run_record import KEYS, OTHERS, RECORD_FILE, RECORD_FORMAT
from grpo_recipes.contract.secrets.redact import hide_secrets, redact_value
from grpo_recipes.worker._shared.same_folder import FolderGone, SameFolder

DAMAGED_FILE = "run.json.damaged"
# Written by a different process before a restart: how often the vLLM server was restarted.
_KEPT = ("vllm_server",)
# A thread stuck on a disk that does not respond must not block the one that records the end.
_LONGEST_TURN_S = 10.0
_NO_WORD: dict[str, Any] = {"exit_code": None, "message": None, "findings": []}
# Progress writes, with an fsync of some milliseconds, take at most 0.05% of the training.
_NOTE_EVERY_S, _NOTE_RARELY = 1.0, 2000


class Record:
    """The run.json of a run folder. Rank 0 writes it; other ranks only write their own failure.

    A final status is never overwritten by another rank: the first failure causes the others. same: checks that the
    folder still belongs to this run; if not, nothing is written. Values from note() may be lost if the process dies;
    everything else is on disk when the call returns.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        self.same = SameFolder(folder)
        self._path = folder / RECORD_FILE
        self._rank = rank
        self._lock = threading.RLock()
        self._noted: dict[str, Any] = {}
        self._note_after = 0.0

    @property
    def is_first(self) -> bool:
        """Whether this process reports for all of them."""
        return self._rank == 0

    def start(self, *, resumed: bool) -> None:
        """Records that the run is running. A resumed run keeps the previous record, if it is readable."""
        if self._rank != 0:
            return
        remove_unfinished(self._path.parent, self._path.name)
        if resumed:
            self._set_aside_damaged()
        before = {key: value for key, value in self.read().items() if value is not None}
        earlier = before if resumed else {key: before[key] for key in _KEPT if key in before}
        self._write(
            {
                "evaluation": {},
                "metrics": {},
                "checkpoint": None,
                "guards": [],
                "memory": {},
                "launches": int(earlier.get("train_wall_s") is not None),
                "train_cpu_s": None,
                "train_wall_s": None,
                **earlier,
                "run": RECORD_FORMAT,
                "status": "running",
                "step": earlier.get("step", 0),
                "max_steps": None,
                "started": _now(),
                "slurm_job": os.environ.get("SLURM_JOB_ID"),
                "ended": None,
                **_NO_WORD,
                "checks": [],
                "proofs": [],
                "guards_not_seen": [],
                "final": None,
                "final_step": None,
                "trend": {},
                "duration": None,
                "phases": [],
            }
        )

    def update(self, **values: Any) -> None:
        """Sets keys while the run is running. Does nothing on other ranks, or after the end.

        Raises KeyError for a key that run.json does not have.
        """
        if self._may_set(values):
            self._set(values)

    def note(self, **values: Any) -> None:
        """Sets progress keys: read() returns them immediately; the file has them after update(), or a few seconds."""
        if not self._may_set(values):
            return
        self._noted.update(values)
        began = time.monotonic()
        if began >= self._note_after:
            self._set({})
            ended = time.monotonic()
            self._note_after = ended + max(_NOTE_EVERY_S, _NOTE_RARELY * (ended - began))

    def _may_set(self, values: dict[str, Any]) -> bool:
        if undeclared := values.keys() - KEYS:
            raise KeyError(f"run.json has no {', '.join(sorted(undeclared))}")
        if self._rank != 0:
            return False
        self.same.check()  # without its folder, no run.json could record that the run is running
        return True

    def _set(self, values: dict[str, Any]) -> None:
        with self._turn():
            content = self._on_disk()
            if content.get("status") == "running":
                self._write({**content, **self._noted, **values})
            self._noted.clear()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Locks for reading and writing, for one thread at a time."""
        has_it = self._lock.acquire(timeout=_LONGEST_TURN_S)
        try:
            yield
        finally:
            if has_it:
                self._lock.release()

    def update_evaluation(self, other: str = "", /, **values: Any) -> None:
        """Sets keys of `evaluation`, or of its entry for another set, by the set's name."""
        known = self.evaluation()
        others = known.get(OTHERS, {})
        more = values if not other else {OTHERS: {**others, other: {**others.get(other, {}), **values}}}
        self.update(evaluation={**known, **more})

    def evaluation(self) -> dict[str, Any]:
        """Returns the current `evaluation` mapping."""
        evaluation: dict[str, Any] = self.read().get("evaluation", {})
        return evaluation

    def guards(self) -> list[dict[str, Any]]:
        """Returns the guards that have fired, with their current counts."""
        guards: list[dict[str, Any]] = self.read().get("guards", [])
        return guards

    def reopen(self, **values: Any) -> None:
        """Marks an ended run as running again, and sets keys."""
        self._write({**self.read(), "status": "running", "ended": None, **_NO_WORD, **values})

    def end(
        self,
        status: str,
        exit_code: int,
        why: Mistake | str | None = None,
        *,
        last_word: bool = False,
        for_all: bool = False,
    ) -> bool:
        """Records how the run ended. Returns false, writing nothing, if this rank may not decide it.

        Rank 0 records success, since it still saves after the others are done; the first rank to fail records a
        failure. last_word: overwrite the recorded end, because the caller knows the real cause. for_all: any rank may
        record this, since rank 0 may be dead. Raises nothing: if run.json cannot be written, the error goes to stderr.
        """
        with self._turn():
            content = self.read()
            self._noted.clear()
            is_told = content.get("status", "running") != "running" and not last_word
            may_say = for_all or status in ("failed", "stopped")
            if is_told or (self._rank != 0 and (not may_say or self._is_of_another_launch())):
                return False
            findings = why.findings if isinstance(why, Mistake) else ()
            cause = {"message": why and str(why), "findings": [as_record(finding) for finding in findings]}
            content = {**content, "status": status, "exit_code": exit_code, **cause, "ended": _now()}
            try:
                self._write(content)
            except FolderGone:
                return False
            except OSError as problem:
                print(hide_secrets(f"run.json does not say how the run ended: {problem}"), file=sys.stderr, flush=True)
                return False
            return True

    def read(self) -> dict[str, Any]:
        """Returns the current record including values from note(), {} without a record."""
        with self._turn():
            content = self._on_disk()
            return {**content, **self._noted} if content.get("status") == "running" else content

    def _on_disk(self) -> dict[str, Any]:
        return read_mapping(self._path.parent, self._path.name) or {}

    def _write(self, content: dict[str, Any]) -> None:
        self.same.check()
        write_whole(self._path.parent, self._path.name, self._text(content), check=self.same.check)

    def _text(self, content: dict[str, Any]) -> str:
        return record_text(self._path.parent, cast("dict[str, Any]", redact_value(content)))

    def _is_of_another_launch(self) -> bool:
        """Whether the folder's rank 0 was refused because another launch is training here."""
        other = holder(self._path.parent)
        return other is not None and other.launch is not None and other.launch != this_launch()

    def _set_aside_damaged(self) -> None:
        """Renames a record that cannot be read, and drops values of the wrong type from one that can."""
        with contextlib.suppress(FileNotFoundError):
            content = self.read()
            kinds = {"evaluation": dict, "metrics": dict, "guards": list, "step": int, "memory": dict}
            # null is what the launcher writes of a worker that had not begun.
            wrong = [key for key, kind in kinds.items() if not isinstance(content.get(key), kind | None)]
            if content and not wrong and record_fault(self._path.parent) is None:
                return
            rename(self._path.parent, self._path.name, DAMAGED_FILE)
            print(
                f"run.json is damaged and was started over, without its earlier evaluations and guards; "
                f"the damaged one is {DAMAGED_FILE}",
                flush=True,
            )
            if content:
                self._write({key: value for key, value in content.items() if key not in wrong})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
