"""Two machines on this one: network namespaces that are joined by one cable and by the disk."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

FIRST = "10.77.0.1"
PORT = 29517
END_S = 400


@dataclass(frozen=True, slots=True)
class Machine:
    """One of them. number: 0 is the first. python: what its processes run in."""

    namespace: str
    cable: str
    number: int
    python: str

    def start(self, folder: Path, *options: str) -> "subprocess.Popen[str]":
        """launch.sh of a run folder on this machine; its output is in a file beside the folder."""
        log = folder.with_name(f"{folder.name}-{self.number}.log")
        words = ["bash", "launch.sh", "--node", str(self.number), "--address", FIRST, "--port", str(PORT), *options]
        # The name of this host leads to the loopback device; gloo would listen there.
        environment = {**os.environ, "PYTHON": self.python, "GLOO_SOCKET_IFNAME": self.cable, "OMP_NUM_THREADS": "1"}
        environment["RES_OPTIONS"] = "timeout:1 attempts:1"  # there is nobody who knows names
        with log.open("w") as file:
            return subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, *words],
                cwd=folder,
                env={**environment, "HF_HUB_OFFLINE": "1", "TORCH_EXTENSIONS_DIR": str(folder.with_name("extensions"))},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def output(self, folder: Path) -> str:
        """What the last start of this machine said."""
        return folder.with_name(f"{folder.name}-{self.number}.log").read_text()

    def processes(self) -> list[int]:
        """All that runs on it."""
        listed = subprocess.run(["ip", "netns", "pids", self.namespace], capture_output=True, text=True, check=True)
        return [int(word) for word in listed.stdout.split()]

    def kill(self) -> None:
        """All of it at once, as when the power fails."""
        while left := self.processes():
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)


def cut(machine: Machine) -> None:
    """Pulls the cable."""
    _ip("-n", machine.namespace, "link", "set", machine.cable, "down")


def heal(machine: Machine) -> None:
    """Puts it back."""
    _ip("-n", machine.namespace, "link", "set", machine.cable, "up")


def why_not() -> str | None:
    """Why this machine cannot be two, None where it can."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "network namespaces need root and iproute2"
    done = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    return f"no network namespaces here: {done.stderr.strip()}" if done.returncode else None


@contextmanager
def two_machines(python: str) -> Iterator[tuple[Machine, Machine]]:
    """Both, reachable from each other; nothing is left of them afterwards."""
    names = [f"grt{os.getpid()}{letter}" for letter in "ab"]
    machines = Machine(names[0], names[0], 0, python), Machine(names[1], names[1], 1, python)
    try:
        for name in names:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        ends = ["link", "add", names[0], "netns", names[0], "type", "veth"]
        _ip(*ends, "peer", "name", names[1], "netns", names[1])
        for number, name in enumerate(names, start=1):
            _ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", name)
            _ip("-n", name, "link", "set", name, "up")
        yield machines
    finally:
        for machine in machines:
            with suppress(subprocess.CalledProcessError):
                machine.kill()
            subprocess.run(["ip", "netns", "del", machine.namespace], capture_output=True)


def ended(started: list["subprocess.Popen[str]"], limit_s: float = END_S) -> list[tuple[int, float]]:
    """Exit code of each, and after how many seconds from now it came; -1 for one that is still there."""
    begin = time.monotonic()
    found: dict[int, tuple[int, float]] = {}
    while len(found) < len(started) and time.monotonic() - begin < limit_s:
        for place, process in enumerate(started):
            if place not in found and process.poll() is not None:
                found[place] = process.returncode, time.monotonic() - begin
        time.sleep(0.1)
    return [found.get(place, (-1, limit_s)) for place in range(len(started))]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
