"""A place with secrets where a hostile recipe is run, and the harm that it did there."""

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TOKEN = "hf_ThisIsTheTokenOfTheUserWhoRunsIt0123"
PASSWORD = "correct-horse-battery"
FILED = "the-secret-of-a-file"
SECRETS = (TOKEN, PASSWORD, FILED)
CPU_S = 6
WALL_S = 90
MEMORY = 2 << 30


@dataclass(frozen=True, slots=True)
class Place:
    """root holds all: team (the recipe's folder), home, outside, the canary that nobody may make."""

    root: Path
    before: dict[str, bytes] = field(default_factory=dict)

    @property
    def team(self) -> Path:
        """The folder of the recipe."""
        return self.root / "team"

    @property
    def canary(self) -> Path:
        """What hostile code makes."""
        return self.root / "canary"

    def filled(self, text: str) -> str:
        """A text of an attempt with the paths of this place."""
        words = {"CANARY": self.canary, "HOME": self.root / "home", "OUTSIDE": self.root / "outside"}
        for word, path in words.items():
            text = text.replace(word, str(path))
        return text

    def environment(self) -> dict[str, str]:
        """That of a user with secrets."""
        home = self.root / "home"
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        places = {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_CACHE_HOME": str(self.root / "cache"),
        }
        return {**kept, **places, "HF_TOKEN": TOKEN, "MY_PASSWORD": PASSWORD, "HF_HUB_OFFLINE": "1"}


def made_place(root: Path) -> Place:
    """A new place below a folder."""
    for folder in ("team", "home/.ssh", "outside", "cache"):
        (root / folder).mkdir(parents=True)
    (root / "home" / ".ssh" / "id_rsa").write_text(f"-----BEGIN KEY-----\n{FILED}\n")
    (root / "outside" / "secrets.env").write_text(f"PASSWORD: {FILED}\n  : {FILED} [\n")
    (root / "home" / ".config" / "grpo-run").mkdir(parents=True)
    return Place(root)


def looked_at(place: Place) -> Place:
    """The same place, with what is in it now."""
    return Place(place.root, _tree(place.root))


def _tree(root: Path) -> dict[str, bytes]:
    """What lies below a folder but in the program's own cache and the run folder: a link's target, a file's bytes."""
    found: dict[str, bytes] = {}
    for folder, folders, files in os.walk(root):
        inside = os.path.relpath(folder, root)
        folders[:] = [name for name in folders if os.path.join(inside, name) not in ("./cache", "team/runs")]
        for name in (*folders, *files):
            path = Path(folder, name)
            kind = path.lstat()
            text = os.readlink(path).encode() if path.is_symlink() else b""
            small = path.is_file() and not path.is_symlink() and kind.st_size < 1 << 20
            found[str(path)] = (
                path.read_bytes() if small else text + str(kind.st_size if path.is_file() else 0).encode()
            )
    return found


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: the code of each command, all that it printed, its CPU seconds, None where it was killed."""

    codes: list[int]
    printed: str
    cpu_s: float
    killed_by: int | None


def run_apart(place: Place, actions: Sequence[Callable[[], int]], cpu_s: int = CPU_S + 1) -> Ended:
    """Does things one after the other in a fork of this process, in the place, within limits of time and memory."""
    output = place.root / "cache" / "printed"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child = os.fork()
    if child == 0:
        _in_child(place, actions, output, cpu_s)
    _, status = _waited(child)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = output.with_suffix(".codes").read_text().split() if output.with_suffix(".codes").exists() else []
    killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    printed = output.read_bytes().decode("utf-8", "backslashreplace")
    return Ended([int(line) for line in lines], printed, cpu_s, killed_by)


def _in_child(place: Place, actions: Sequence[Callable[[], int]], output: Path, cpu_s: int) -> None:
    """Never returns: nothing of the test runs on in the fork."""
    try:
        writing = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
        os.environ.clear()
        os.environ.update(place.environment())
        os.chdir(place.team)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
        with output.with_suffix(".codes").open("w") as codes:
            for action in actions:
                codes.write(f"{action()}\n")
                codes.flush()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(99)


def _waited(child: int) -> tuple[int, int]:
    until = time.monotonic() + WALL_S
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return pid, status
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)


def harms(place: Place, ended: Ended, run_folder: Path | None = None) -> list[str]:
    """What happened that must not, in words; none for a program that is safe. place: as it was before."""
    found = []
    if place.canary.exists():
        found.append("code ran")
    changed = {path for path, _ in place.before.items() ^ _tree(place.root).items()}
    if changed - {str(place.canary)}:
        found.append(f"written outside the run folder: {sorted(changed)}")
    if ended.killed_by is not None or ended.cpu_s > CPU_S:
        found.append(f"did not end: signal {ended.killed_by}, {ended.cpu_s:.1f} CPU seconds")
    if "Traceback" in ended.printed or any(code not in (0, 2) for code in ended.codes):
        found.append("crashed")
    if any(secret in ended.printed for secret in SECRETS):
        found.append("printed a secret")
    if not all(letter.isprintable() or letter in "\n\t" for letter in ended.printed if letter not in _HARMLESS):
        found.append("steered the terminal")
    written = b"".join(path.read_bytes() for path in (run_folder or Path("/none")).rglob("*") if path.is_file())
    if any(secret.encode() in written for secret in SECRETS):
        found.append("wrote a secret")
    return found


# Unprintable for Python, and without any effect on a terminal: wide and private characters.
_HARMLESS = frozenset("\u3000\xa0\u2009\u200a\u202f\ufffd")
