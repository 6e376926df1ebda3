"""The page as a file, written once, or again and again while its runs go on."""

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from grpo_recipes.contract.files.folder_files import write_whole
from grpo_recipes.errors import Refusal
from grpo_recipes.report.html.followed_run import FollowedRun
from grpo_recipes.report.html.page import page

SHORTEST_PAUSE_S = 5.0
SHARE_OF_TIME = 20
"""A page that takes a second to write is written every 20 s."""
LONGEST_SILENCE_S = 6 * 3600.0
_MARK, _HEAD = b"data-written=", 1024
"""What the page of a report has in its first bytes."""


def refuse_to_replace(path: Path) -> None:
    """Raises Refusal where something is that is no page of an earlier report."""
    if not os.path.lexists(path):
        return
    head = b""
    if path.is_file() and not path.is_symlink():
        with contextlib.suppress(OSError), path.open("rb") as file:
            head = file.read(_HEAD)
    if _MARK not in head:
        raise Refusal.of(
            f"{path} is there already",
            because="it is no report, and a report replaces nothing else",
            fix="-o with a name that is not there",
        )


def write_page(runs: Sequence[FollowedRun], path: Path, reload_s: int | None = None) -> int:
    """Writes the page at once or not at all, and gives its size in bytes. Raises Refusal where it cannot."""
    content = page(runs, reload_s).encode("utf-8", "replace")
    try:
        write_whole(path.parent, path.name, content)
    except OSError as problem:
        raise Refusal.of(
            f"{path} cannot be written", because=str(problem.strerror or problem), fix="-o FILE writes it elsewhere"
        ) from None
    return len(content)


def follow(
    runs: Sequence[FollowedRun],
    path: Path,
    *,
    pause_s: float = SHORTEST_PAUSE_S,
    silence_s: float = LONGEST_SILENCE_S,
) -> bool:
    """Writes the page until all runs have ended, then a last time; gives whether they did.

    It gives up when nothing has been heard of them for silence_s seconds.
    """
    heard_at, heard, pause = time.monotonic(), _heard(runs), pause_s
    while True:
        started = time.monotonic()
        has_ended = all(run.has_ended for run in runs)
        is_last = has_ended or started - heard_at > silence_s
        write_page(runs, path, None if is_last else max(1, round(pause)))
        if is_last:
            return has_ended
        pause = max(pause_s, SHARE_OF_TIME * (time.monotonic() - started))
        time.sleep(pause)
        for run in runs:
            run.look()
        if (now := _heard(runs)) != heard:
            heard_at, heard = time.monotonic(), now


def _heard(runs: Sequence[FollowedRun]) -> list[object]:
    return [(run.listed.status, run.record.step, run.last_time, run.samples.rows) for run in runs]


def default_file(folders: Sequence[str]) -> Path:
    """Where a page goes without -o: beside the runs' folders, named like the one run."""
    if len(folders) == 1:
        name = os.path.basename(os.path.abspath(folders[0])) or "run"
        return Path(f"{name}-report.html")
    return Path("runs-report.html")
