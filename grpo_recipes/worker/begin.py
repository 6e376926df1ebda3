"""The first moment of a run, in which it takes its folder."""

import sys
from pathlib import Path

from grpo_recipes.contract.exits import EXIT_FAILED, EXIT_NOT_STARTED, EXIT_STOPPED
from grpo_recipes.contract.files.folder_lock import Busy, hold
from grpo_recipes.contract.files.regular_file import NotRegular
from grpo_recipes.contract.files.run_entries import refuse_foreign_entries, strange_entry
from grpo_recipes.contract.findings.findings_text import bare_text
from grpo_recipes.contract.secrets.redact import hide_secrets
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker.survival.folder_faults import explained


def begin(folder: Path, record: Record | None, lock: str | None, *, resumed: bool) -> int | None:
    """Takes a run folder and says in it that the run is running; returns the exit code where it cannot, else None.

    record: None for a server with a machine of its own, whose trainers keep it. lock: one of folder_lock, None for a
    rank that leaves that to the first one. 2: another run has the folder, not a byte of which was touched; 3: something
    in the folder is not the run's own, and nothing was written; 1: it cannot be written.
    """
    is_ours = False
    try:
        if lock is not None:
            hold(folder, lock)
        is_ours = True
        refuse_foreign_entries(folder, deep=lock is not None)
        if record is not None:
            record.start(resumed=resumed)
    except Busy as busy:
        print(f"error: {busy}", file=sys.stderr, flush=True)
        return EXIT_NOT_STARTED
    except NotRegular as problem:
        print(hide_secrets(f"error: {bare_text([strange_entry(problem)])}"), file=sys.stderr, flush=True)
        return EXIT_STOPPED
    except OSError as problem:
        why = None if record is None else explained(problem, record.same)
        if record is None or why is None:
            raise
        print(hide_secrets(f"error: {why}"), file=sys.stderr, flush=True)
        if is_ours:
            record.end("failed", EXIT_FAILED, why, last_word=True)
        return EXIT_FAILED
    return None
