"""Installs Slurm from the packages of Debian or Ubuntu where it is missing. Never fails: the tests say why they skip.

The tests need its programs alone; no service of the machine is set up or used.
"""

import os
import shutil
import subprocess
import sys
import time

from throw_away_cluster import missing_programs

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
LIMIT_S = 300


def main() -> str:
    """Installs what is missing, with one retry, and says what came of it."""
    if not missing_programs():
        return "Slurm is installed"
    if shutil.which("apt-get") is None:
        return "no Slurm, and no apt-get to install it with"
    rights = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    if rights and shutil.which("sudo") is None:
        return "no Slurm, and no right to install it"
    words = ""
    for pause in (0, 5):
        time.sleep(pause)
        for command in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
            words = _ran([*rights, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet=2", *command])
        if not missing_programs():
            return "Slurm is installed now"
    return f"Slurm cannot be installed: {words}"


def _ran(command: list[str]) -> str:
    """The last line that a command prints."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return f"apt-get took more than {LIMIT_S} s"
    return (done.stdout.splitlines() or [f"exit code {done.returncode}"])[-1]


if __name__ == "__main__":
    print(main(), file=sys.stderr)
