"""run.json: how the run stands and how it ended. It is replaced whole, so a reader never sees half of it."""

import contextlib
import errno
import os
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from grpo_recipes.contract.files.bounded_json import read_mapping
from grpo_recipes.contract.files.folder_files import open_in_place, remove, remove_unfinished, rename, write_whole
from grpo_recipes.contract.files.folder_lock import holder, this_launch
from grpo_recipes.contract.findings.finding import as_record
from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.integrity.run_folder import record_fault, record_text
from grpo_recipes.contract.run_record import KEYS, OTHERS, RECORD_FILE, RECORD_FORMAT
from grpo_recipes.contract.secrets.redact import hide_secrets, redact_value
from grpo_recipes.worker._shared.same_folder import FolderGone, SameFolder

DAMAGED_FILE = "run.json.damaged"
# Room on the disk that is given back when a full one leaves none for saying how the run ended.
RESERVE_FILE = ".reserve"
_RESERVE_BYTES = 1 << 16
_FULL = (errno.ENOSPC, errno.EDQUOT)
# What another process said before this one began anew: how often the vLLM server was started again.
_KEPT = ("vllm_server",)
# A thread whose disk does not answer holds up nobody who has to say how the run ended.
_LONGEST_TURN_S = 10.0
_NO_WORD: dict[str, Any] = {"exit_code": None, "message": None, "findings": []}
# Writing progress, with an fsync of some milliseconds, takes at most half a thousandth of the training.
_NOTE_EVERY_S, _NOTE_RARELY = 1.0, 2000


class Record:
    """The run.json of a run folder. Rank 0 keeps it; another rank writes only its own failure.

    A status that ends the run is never overwritten by another rank: the first failure is the cause of the
    rest. same: whether the run folder is still that of this run; nothing is written where it is not.
    What is noted may be lost with the process; all else is on the disk when a call returns.
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
        """Whether this process is the one that speaks for all."""
        return self._rank == 0

    def start(self, *, resumed: bool) -> None:
        """Says that the run is running. A resumed run keeps what the record said before, where it can be read."""
        if self._rank != 0:
            return
        remove_unfinished(self._path.parent, self._path.name)
        if resumed:
            self._set_aside_damaged()
        before = self.read()
        kept = before if resumed else {key: before[key] for key in _KEPT if key in before}
        self._write(
            {
                "evaluation": {},
                "metrics": {},
                "checkpoint": None,
                "guards": [],
                "memory": {},
                "launches": int(kept.get("train_wall_s") is not None),
                "train_cpu_s": None,
                "train_wall_s": None,
                **kept,
                "run": RECORD_FORMAT,
                "status": "running",
                "step": kept.get("step", 0),
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
        self._reserve()

    def update(self, **values: Any) -> None:
        """Sets keys while the run is running; does nothing on other ranks than 0 and after the end.

        Raises KeyError for a key that run.json does not have.
        """
        if self._may_set(values):
            self._set(values)

    def note(self, **values: Any) -> None:
        """Sets keys of progress: read() has them at once, the file with the next update(), or after some seconds."""
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
        self.same.check()  # without its folder there is no run.json that could say that the run is running
        return True

    def _set(self, values: dict[str, Any]) -> None:
        with self._turn():
            content = self._on_disk()
            if content.get("status") == "running":
                self._write({**content, **self._noted, **values})
            self._noted.clear()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """One thread reads and writes at a time."""
        has_it = self._lock.acquire(timeout=_LONGEST_TURN_S)
        try:
            yield
        finally:
            if has_it:
                self._lock.release()

    def update_evaluation(self, other: str = "", /, **values: Any) -> None:
        """Sets keys of the `evaluation` mapping, or of what it has of an other set, by its name."""
        known = self.evaluation()
        others = known.get(OTHERS, {})
        more = values if not other else {OTHERS: {**others, other: {**others.get(other, {}), **values}}}
        self.update(evaluation={**known, **more})

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
        """Says how the run ended; returns false, and writes nothing, if it is not this rank's to say.

        A good end is rank 0's, which still has to save when the others are done; a failure is the first one's.
        last_word: replaces what was said before, by the one who knows why it failed. for_all: any rank may say this,
        since rank 0 may be gone. Raises nothing: where run.json cannot be written, stderr says so.
        """
        with self._turn():
            content = self.read()
            self._noted.clear()
            is_told = content.get("status", "running") != "running" and not last_word
            may_say = for_all or status in ("failed", "stopped")
            if is_told or (self._rank != 0 and (not may_say or self._is_of_another_launch())):
                return False
            findings = why.findings if isinstance(why, Mistake) else ()
            told = {"message": why and str(why), "findings": [as_record(finding) for finding in findings]}
            content = {**content, "status": status, "exit_code": exit_code, **told, "ended": _now()}
            try:
                self._write_at_last(content)
            except FolderGone:
                return False
            except OSError as problem:
                print(hide_secrets(f"run.json does not say how the run ended: {problem}"), file=sys.stderr, flush=True)
                return False
            return True

    def read(self) -> dict[str, Any]:
        """What the record says now, with what was noted, {} when there is none."""
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

    def _write_at_last(self, content: dict[str, Any]) -> None:
        """Writes the end, on a full disk into the room that was kept for it."""
        try:
            self._write(content)
        except OSError as problem:
            if problem.errno not in _FULL:
                raise
            self.same.check()
            try:
                _write_over(self._path.parent, RESERVE_FILE, self._path.name, self._text(content))
            except OSError:
                remove(self._path.parent, RESERVE_FILE)
                self._write(content)
        with contextlib.suppress(OSError):
            remove(self._path.parent, RESERVE_FILE)

    def _reserve(self) -> None:
        write_whole(self._path.parent, RESERVE_FILE, os.urandom(_RESERVE_BYTES))

    def _is_of_another_launch(self) -> bool:
        """Whether other processes than those of this launch train here, whose rank 0 was refused the folder."""
        other = holder(self._path.parent)
        return other is not None and other.launch is not None and other.launch != this_launch()

    def _set_aside_damaged(self) -> None:
        """Keeps a record that cannot be read under another name, and leaves out of one what is not of its kind."""
        with contextlib.suppress(FileNotFoundError):
            content = self.read()
            kinds = {"evaluation": dict, "metrics": dict, "guards": list, "step": int, "memory": dict}
            wrong = [key for key, kind in kinds.items() if not isinstance(content.get(key, kind()), kind)]
            if content and not wrong and record_fault(self._path.parent) is None:
                return
            rename(self._path.parent, self._path.name, DAMAGED_FILE)
            print(
                f"run.json is damaged and begun anew, without what it said before of evaluations and guards; "
                f"the damaged one is {DAMAGED_FILE}",
                flush=True,
            )
            if content:
                self._write({key: value for key, value in content.items() if key not in wrong})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


# A file that keeps room on the disk for what must be written at the end.


def _write_over(folder: Path, spare: str, name: str, content: str) -> None:
    """Replaces a file by another one of the folder, written over and renamed: on a full disk its room is there.

    To remove the spare file and write anew would leave its room to whoever fills the disk. Raises OSError, also for
    content that is larger than the spare file, and for one with other names, which would be written over too.
    """
    with open(open_in_place(folder, spare, make=False), "r+b") as file:
        found = os.fstat(file.fileno())
        if found.st_nlink > 1 or found.st_size < len(encoded := content.encode()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), spare)
        file.write(encoded)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    rename(folder, spare, name)
