"""Holds one machine of a throw-away cluster: a daemon, and whatever comes to be below it.

    hold.py COMMAND ...

A signal, or the end of its standard input, whose other end the test holds, is a power cut: everything below is killed
at once. Slurm's own children leave their daemon's group and session, so no group holds them all.
"""

import os
import select
import signal
import subprocess
import sys

from grpo_recipes.contract.host import processes


def main(command: list[str]) -> int:
    """Runs the command until it ends or the power is cut; returns its exit code."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    processes.adopt_orphans()
    daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        while daemon.poll() is None:
            ready, _, _ = select.select([reading, 0], [], [])
            if 0 in ready or any(number != signal.SIGCHLD for number in os.read(reading, 64)):
                break
            processes.reap(daemon)
    finally:
        processes.kill_all_below([daemon])
    return daemon.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
