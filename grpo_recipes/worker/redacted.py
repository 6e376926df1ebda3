"""Copies its standard input to a log, without secrets.

    python -m grpo_recipes.worker.redacted LOG

Signals that ask a job to stop reach every process of it: this one ends when the last one that it listens to has.
"""

import signal
import sys

from grpo_recipes.processes import ASKING
from grpo_recipes.trust.redacted_file import RedactedFile

if __name__ == "__main__":
    for number in ASKING:
        signal.signal(number, signal.SIG_IGN)
    RedactedFile(sys.argv[1]).copy(0)
