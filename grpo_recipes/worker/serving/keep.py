"""Outlives the process that started a server just long enough to kill it.

    keep.py GROUP

It reads its standard input, whose other end that process alone holds: when it is closed without a word, that process
was killed. A server killed with it would leave its engine behind, which has the memory of the GPUs.
"""

import contextlib
import os
import signal
import sys

if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a Ctrl-C in a terminal reaches every process there
    if not os.read(0, 1):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(sys.argv[1]), signal.SIGKILL)
