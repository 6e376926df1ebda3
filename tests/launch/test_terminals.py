"""A terminal, pipe or disk that is gone, full or stopped: the run trains on, says so, and a signal still saves."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.processes import marked, wait_until
from terminals import ROOT, Terminal, by_shell, launching

from grpo_recipes.contract.host.processes import descendants, send
from grpo_recipes.contract.run_record import read_record

MakeFolder = Callable[..., Path]
Open = Callable[..., Terminal]
# Talks a lot, saves when it is asked to, and completes when "go" is there.
TALKING = """
got = []
for number in (signal.SIGTERM, signal.SIGHUP): signal.signal(number, lambda which, _: got.append(which))
record(status="running", step=0)
note("ready0", os.getpid())
step = 0
while not got and not os.path.exists("go"):
    step += 1
    event(event="guard", step=step, time=time.time(), id="GRD000", name="talk", action="note", message="x" * 900)
    print("y" * 900, flush=True)
    note("step", step)
    time.sleep(0.02)
note("saved", " ".join(str(int(each)) for each in got))
if got: record(status="interrupted", exit_code=75, step=step)
else: record(status="completed", exit_code=0, step=step)
sys.exit(75 if got else 0)
"""
GONE = "the run continues, and SIGINT or SIGTERM still saves and stops it"


@pytest.fixture
def opened(mark: str) -> Iterator[Open]:
    """Opens terminals, none of which outlives the test; what was launched in them ends by itself."""
    all_of_them: list[Terminal] = []

    def open_one(words: list[str], **how: bool) -> Terminal:
        all_of_them.append(Terminal(words, **how))
        return all_of_them[-1]

    yield open_one
    for one in all_of_them:
        one.leave()
    wait_until(lambda: marked(mark) == [], timeout_s=30)


@pytest.fixture
def folder(run_folder: MakeFolder) -> Path:
    """A run folder with a trainer that talks."""
    return run_folder(TALKING)


def step(folder: Path) -> int:
    return int((folder / "step").read_text()) if (folder / "step").exists() else 0


def trains_on(folder: Path, steps: int = 25) -> bool:
    """Whether the trainer makes more steps from now on."""
    before = step(folder)
    wait_until(lambda: step(folder) >= before + steps, timeout_s=30)
    return True


def status(folder: Path) -> str:
    record = read_record(str(folder))
    assert record is not None
    return record.status


def completed(folder: Path) -> bool:
    (folder / "go").touch()
    wait_until(lambda: status(folder) != "running", timeout_s=30)
    return status(folder) == "completed"


def told(folder: Path) -> int:
    """How often the log says that nobody looks any more."""
    return (folder / "train.log").read_text().count(GONE)


WINDOWS = {
    "grpo-run leads the session, as tmux and ssh -t start it": lambda folder: launching(folder),
    "below a shell": lambda folder: by_shell(folder, "LAUNCH; true"),
    "below a shell, its answer kept": lambda folder: by_shell(folder, 'LAUNCH > "$1/answer"; true'),
    "in the background of a shell": lambda folder: by_shell(folder, "LAUNCH & wait"),
    "in the background of a shell with job control": lambda folder: by_shell(folder, "set -m; LAUNCH & wait"),
    "in a subshell of a subshell": lambda folder: by_shell(folder, "( ( LAUNCH ) ); true"),
    "piped into tee": lambda folder: by_shell(folder, 'LAUNCH 2>&1 | tee "$1/copy"; true'),
    "disowned": lambda folder: by_shell(folder, "set -m; LAUNCH & disown; read"),
}


@pytest.mark.parametrize("window", WINDOWS)
def test_a_closed_window_ends_no_run(window: str, folder: Path, opened: Open) -> None:
    terminal = opened(WINDOWS[window](folder))
    wait_until((folder / "ready0").exists, timeout_s=30)
    terminal.close()
    assert trains_on(folder)
    wait_until(lambda: told(folder) == 1, timeout_s=30)
    assert completed(folder)
    assert told(folder) == 1


def test_nohup_knows_of_no_terminal(folder: Path, opened: Open) -> None:
    terminal = opened(by_shell(folder, 'nohup LAUNCH > "$1/talk" 2>&1; true'))
    wait_until((folder / "ready0").exists, timeout_s=30)
    terminal.close()
    assert trains_on(folder)
    assert completed(folder)
    assert told(folder) == 0
    assert "training in" in (folder / "talk").read_text()


def test_the_shell_says_it_before_the_terminal_is_gone(folder: Path, opened: Open) -> None:
    terminal = opened(launching(folder))
    wait_until((folder / "ready0").exists, timeout_s=30)
    terminal.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    terminal.close()
    assert trains_on(folder)
    assert completed(folder)
    assert terminal.process.wait(timeout=180) == 0
    assert told(folder) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name)
def test_a_signal_saves_after_the_terminal_is_gone(number: signal.Signals, folder: Path, opened: Open) -> None:
    terminal = opened(launching(folder))
    wait_until((folder / "ready0").exists, timeout_s=30)
    terminal.close()
    wait_until(lambda: told(folder) == 1, timeout_s=30)
    terminal.process.send_signal(number)
    assert terminal.process.wait(timeout=180) == 75
    assert (folder / "saved").read_text() == str(int(signal.SIGTERM))
    assert status(folder) == "interrupted"


def test_a_hangup_that_somebody_sends_ends_no_run(folder: Path, opened: Open) -> None:
    terminal = opened(launching(folder))
    wait_until((folder / "ready0").exists, timeout_s=30)
    terminal.process.send_signal(signal.SIGHUP)
    assert trains_on(folder)
    assert completed(folder)
    assert told(folder) == 1


def test_a_stopped_terminal_holds_nobody_up(folder: Path, opened: Open) -> None:
    terminal = opened(launching(folder))
    wait_until((folder / "ready0").exists, timeout_s=30)
    terminal.type(b"\x13")  # Ctrl-S
    size = (folder / "train.log").stat().st_size
    assert trains_on(folder, 150)
    assert (folder / "train.log").stat().st_size > size + (1 << 16)  # more than a pipe holds
    terminal.process.send_signal(signal.SIGTERM)
    wait_until((folder / "saved").exists, timeout_s=30)
    assert terminal.process.wait(timeout=180) == 75


def test_a_terminal_that_is_not_to_be_written_from_the_background(folder: Path, opened: Open) -> None:
    terminal = opened(by_shell(folder, "set -m; LAUNCH & wait"), to_stop=True)
    wait_until((folder / "ready0").exists, timeout_s=30)
    assert trains_on(folder, 150)
    assert completed(folder)
    assert terminal.process.poll() is None or terminal.process.returncode == 0


def piped(folder: Path, reader: str, line: str) -> "subprocess.Popen[bytes]":
    """A launch whose talk goes to a program."""
    words = by_shell(folder, f"{line} | {reader}")
    return subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=2)


READERS = {
    "head": "head -n 1 > /dev/null",
    "one that ends at once": "true",
    "tee, killed": """bash -c 'echo $$ > "$1/reader"; exec tee "$1/copy" > /dev/null' bash "$1\"""",
    "one that never reads": "sleep 300",
    "a full disk": "cat > /dev/full",
}


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_that_leaves_ends_no_run(reader: str, folder: Path) -> None:
    shell = piped(folder, READERS[reader], '{ LAUNCH; echo $? > "$1/code"; } 2>&1')
    try:
        wait_until((folder / "ready0").exists, timeout_s=30)
        if "killed" in reader:
            os.kill(int((folder / "reader").read_text()), signal.SIGKILL)
        assert trains_on(folder, 150)
        if "never" not in reader:
            wait_until(lambda: told(folder) == 1, timeout_s=30)
        assert completed(folder)
        wait_until((folder / "code").exists, timeout_s=30)
        wait_until(lambda: (folder / "code").exists() and (folder / "code").read_text(), timeout_s=30)
        assert (folder / "code").read_text().strip() == "0"
    finally:
        send((each.pid for each in descendants(shell.pid)), signal.SIGKILL)
        shell.kill()
        shell.wait()


@pytest.mark.parametrize("options", [[], ["-u"]], ids=["buffered", "unbuffered"])
def test_a_print_reaches_its_reader_at_once_and_never_fails(options: list[str]) -> None:
    program = (
        "from grpo_recipes.contract.host.standard_streams import make_steady; import sys; make_steady();"
        " print('a line', file=sys.stderr); sys.stdin.read(); print('another', file=sys.stderr)"
    )
    words = [sys.executable, *options, "-c", program]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None and process.stdin is not None
        assert process.stderr.readline() == b"a line\n"
        process.stderr.close()
        process.stdin.close()
        assert process.wait(timeout=180) == 0


@pytest.mark.parametrize("place", ["/dev/full", "closed"])
def test_nowhere_to_be_shown(place: str, folder: Path) -> None:
    redirected = "2>&-" if place == "closed" else f"2> {place}"
    program = (
        "import sys; from grpo_recipes.contract.host.standard_streams import make_steady; make_steady();"
        " from grpo_recipes.launch.local import launch; sys.exit(launch(sys.argv[1], echo=sys.stderr))"
    )
    line = shlex.join([sys.executable, "-c", program, str(folder)])
    shell = subprocess.Popen(["/bin/bash", "-c", f"{line} > /dev/null < /dev/null {redirected}"], cwd=ROOT)
    wait_until((folder / "ready0").exists, timeout_s=30)
    assert trains_on(folder)
    (folder / "go").touch()
    assert shell.wait(timeout=180) == 0
    assert told(folder) == (0 if place == "closed" else 1)


def test_without_the_defence_the_run_is_killed(folder: Path, opened: Open) -> None:
    program = (
        "import sys, grpo_recipes.launch.local as local\n"
        "local.steady = lambda descriptor, stream, patience_s: stream\n"
        "sys.exit(local.launch(sys.argv[1]))\n"
    )
    terminal = opened([sys.executable, "-c", program, str(folder)])
    wait_until((folder / "ready0").exists, timeout_s=30)
    terminal.close()
    assert terminal.process.wait(timeout=180) not in (0, 75)
    assert not (folder / "saved").exists()
