"""Chooses what shows a run: rows that move on a terminal, plain lines elsewhere, or almost nothing."""

import os
import time
from typing import TextIO

from grpo_recipes.launch.plain_lines import PlainProgress
from grpo_recipes.launch.progress import NORMAL, Progress, View


def progress(echo: TextIO, view: View = NORMAL, began: float | None = None) -> Progress:
    """The progress that fits a stream: moving rows on a terminal, plain lines elsewhere.

    began: when the run was started, a Unix time; now if not said.
    """
    if view.level == "quiet" or not echo.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        return PlainProgress(echo, view)
    from grpo_recipes.launch.screen import Screen  # rich takes 50 ms

    return Screen(echo, view, time.time() if began is None else began)
