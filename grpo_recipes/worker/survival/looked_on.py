"""What a process tells its onlooker, see onlooker.py."""

import faulthandler
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from grpo_recipes.contract.host.processes import prctl
from grpo_recipes.worker.survival.last_words import LastWords

_PR_SET_PTRACER = 0x59616D61
# The package alone is found in that folder, no other module.
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); import grpo_recipes; del sys.path[0]; "
    "from grpo_recipes.worker.survival.onlooker import main; main()"
)
_ANSWER_S = 90.0
_BYE_S = 2.0


class LookedOn:
    """Starts the onlooker of this process. One that is gone changes nothing else."""

    def __init__(self, folder: Path, rank: int, world_size: int) -> None:
        reading, self._dumps = os.pipe()
        package = str(Path(__file__).parents[3])
        printed = LastWords.now(folder)
        words = [package, str(folder), str(os.getpid()), str(rank), str(world_size), str(reading)]
        words += [str(printed.log), "-" if printed.own is None else str(printed.own)]
        self._program = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[reading],
        )
        os.close(reading)
        assert self._program.stdin is not None
        os.set_blocking(self._program.stdin.fileno(), False)  # an onlooker that hangs itself holds nobody up
        # Writes the stacks of all threads without the interpreter's lock.
        faulthandler.register(signal.SIGUSR2, file=self._dumps, all_threads=True)
        prctl(_PR_SET_PTRACER, self._program.pid)

    def alive(self, left_s: float | None, step: int, what: str) -> None:
        """Says that threads of this process run. left_s: seconds until the onlooker ends it if nothing more is said."""
        self._say(f"alive {'-' if left_s is None else format(left_s, '.3f')} {step} {what}")

    def asked(self) -> None:
        """Says that the process was asked to end: nobody shall wonder when it is killed."""
        self._say("asked")

    def look(self) -> None:
        """Lets it add to the file of the stacks what it sees, and waits for that."""
        self._say("look")
        assert self._program.stdout is not None
        if select.select([self._program.stdout], [], [], _ANSWER_S)[0]:
            self._program.stdout.readline()

    def bye(self) -> None:
        """Says that the process ends and has told why, and waits a moment for the onlooker."""
        self._say("bye")
        with suppress(subprocess.TimeoutExpired):
            self._program.wait(_BYE_S)

    def _say(self, line: str) -> None:
        assert self._program.stdin is not None
        with suppress(OSError):
            os.write(self._program.stdin.fileno(), f"{line}\n".encode())
