"""Copies its standard input to a log, without secrets.

    python -P worker/part.py survival.redacted LOG

Signals that stop a job reach all of its processes. This process ignores them, and ends at the end of its input.
"""

import signal
from collections.abc import Sequence

from grpo_recipes.contract.host.processes import ASKING
from grpo_recipes.contract.secrets.redacted_file import RedactedFile


def main(arguments: Sequence[str]) -> None:
    """Copies until the end of the input."""
    for number in ASKING:
        signal.signal(number, signal.SIG_IGN)
    RedactedFile(arguments[0]).copy(0)
