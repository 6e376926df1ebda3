"""What terminals of 60, 80 and 200 columns show of a run that another process trains, read from their other end."""

import json
import re
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.processes import marked, wait_until
from terminals import Terminal, launching

MakeFolder = Callable[..., Path]
# Loads for a moment, trains ten steps, warns, and waits to be told to end.
TRAINING = """
phases = []
def phase(name):
    if phases: phases[-1]["seconds"] = 0.3
    if name: phases.append({"name": name, "began": round(time.time(), 3), "seconds": None})
    record(status="running", step=0, phases=phases)
phase("loading the model")
time.sleep(0.8)
phase("generating the first completions")
time.sleep(0.8)
phase(None)
figures = {"frac_reward_zero_std": 0.25, "completions/clipped_ratio": 0.0, "step_time": 0.3127, "entropy": 1.5}
figures["completions/mean_length"] = 120.5
event(event="start", step=0, time=time.time(), max_steps=100)
event(event="evaluation", step=0, time=time.time(), reward=0.5575, rewards={}, count=11)
for step in range(1, 11):
    event(event="step", step=step, time=time.time(), reward=0.5, **figures)
    time.sleep(0.1)
event(event="guard", step=10, time=time.time(), id="GRD003", name="truncation", action="warn", message="all cut")
while not os.path.exists("go"): time.sleep(0.05)
record(status="completed", exit_code=0, step=10, max_steps=10, phases=phases)
"""
BAR = r"[━─]{6,30}"


@pytest.fixture
def terminals(mark: str) -> Iterator[list[Terminal]]:
    """Terminals, none of which outlives the test."""
    opened: list[Terminal] = []
    yield opened
    for one in opened:
        one.leave()
    wait_until(lambda: marked(mark) == [], timeout_s=30)


def frames(text: str) -> list[str]:
    """The rows as they were written, without the terminal's own sequences."""
    wiped = text.replace("\x1b[2K", "\n").replace("\r", "\n")
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", wiped).split("\n")


def looked_at(terminal: Terminal, until: str) -> str:
    """What a terminal shows up to some words, and a moment more."""
    seen: list[str] = []

    def is_there() -> bool:
        seen.append(terminal.shown())
        return until in "".join(frames("".join(seen)))

    wait_until(is_there, timeout_s=30)
    time.sleep(0.7)  # the frame behind it
    return "".join([*seen, terminal.shown()])


ROWS = {
    60: (
        r"step 10/100  eta 0:\d\d:\d\d  0.313 s/step  0:00:\d\d so far",
        "reward 0.500  held out 0.557  1 warning",
    ),
    80: (
        rf"step 10/100  {BAR}  eta 0:\d\d:\d\d  0.313 s/step  0:00:\d\d so far",
        "reward 0.500  held out 0.557  groups without variance 25%  1 warning",
    ),
    200: (
        rf"step 10/100  {BAR}  eta 0:\d\d:\d\d  0.313 s/step  0:00:\d\d so far",
        "reward 0.500  held out 0.557  groups without variance 25%  truncated 0%  length 120  entropy 1.5  1 warning",
    ),
}


@pytest.mark.processes
def test_a_run_is_seen_at_every_width(
    run_folder: MakeFolder, terminals: list[Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    folder = run_folder(TRAINING)
    terminals.append(Terminal(launching(folder), columns=80))
    watching = (
        "import sys; from grpo_recipes.cli.commands.watch import follow_to_the_end;"
        " from grpo_recipes.launch.display import progress\n"
        "with progress(sys.stderr) as shown: sys.exit(follow_to_the_end(sys.argv[1], lambda: False, shown))"
    )
    wait_until((folder / "run.json").exists, timeout_s=30)
    terminals += [Terminal([sys.executable, "-c", watching, str(folder)], columns=width) for width in (60, 200)]
    for terminal, width in zip(terminals, (80, 60, 200), strict=True):
        text = looked_at(terminal, "1 warning")
        shown = frames(text)
        # On a busy machine rich writes the first line behind its first frame.
        assert any(row.endswith("loading the model  0.3 s") for row in shown), width
        assert any(re.match("generating the first completions  0:00:0", row) for row in shown), width
        assert "evaluation at step 0  reward 0.5575  (11 rows)" in shown
        assert "warning: truncation at step 10: all cut [GRD003]" in shown
        moving = [row for row in shown if row.startswith(("step ", "reward ", "generating the first completions  0:"))]
        assert [row for row in moving if len(row) >= width] == [], width
        where, figures = ROWS[width]
        assert [row for row in moving if re.fullmatch(where, row)], (width, moving[-4:])
        assert figures in moving
        assert "\x1b[1mstep 10/100\x1b[0m" in text
    (folder / "go").touch()
    assert [terminal.process.wait(timeout=180) for terminal in terminals] == [0, 0, 0]
    assert json.loads((folder / "run.json").read_text())["status"] == "completed"


@pytest.mark.processes
def test_a_window_that_becomes_narrow_is_followed_and_no_colour_is_none(
    run_folder: MakeFolder, terminals: list[Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    terminals.append(Terminal(launching(run_folder(TRAINING)), columns=200))
    wide = looked_at(terminals[0], "1 warning")
    termios.tcsetwinsize(terminals[0].end, (24, 40))
    time.sleep(1.2)
    narrow = [row for row in frames(terminals[0].shown()) if row.startswith(("step ", "reward "))]
    assert "truncated 0%" in wide
    assert narrow[-1] == "reward 0.500  held out 0.557  1 warning"
    assert not re.search(r"\x1b\[(3[0-7]|9[0-7]|38;)", wide)
    terminals[0].process.send_signal(signal.SIGTERM)
    terminals[0].process.wait(timeout=180)
