"""A terminal shows something every two seconds, from Enter to the first step and while a model is exported."""

import os
import re
import select
import time
from pathlib import Path

import pytest
from terminals import Terminal

pytestmark = pytest.mark.stack

RECIPE = Path(__file__).parents[2] / "recipes" / "quickstart.yaml"
SETTINGS = {"training.max_steps": 1, "training.save_steps": 0, "evaluation.max_rows": 8}
LONGEST_S = 2.0
# As the libraries hold up what imports them, but without work: in the processes of the training and the export.
SLOW = """
import sys, time
if any(word.endswith("worker/train.py") or word == "export.start" for word in sys.orig_argv):
    time.sleep(3)
"""
_GIVE_UP_S = 300.0


def waited(pid: int | str) -> float:
    """Seconds that the threads of a process could have run and had to wait for a processor, which others had."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[1]) for thread in threads) / 1e9


def longest_silence(terminal: Terminal, until: str) -> tuple[float, str, str]:
    """The longest time without a sign of life up to some words, what came before it, and all that was shown.

    What the program, or this one, waited for a processor meanwhile is left out.
    """
    longest, before, seen = 0.0, "", ""
    pid, end = terminal.process.pid, time.monotonic() + _GIVE_UP_S
    last, last_waited = time.monotonic(), waited(pid) + waited("self")
    while until not in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen):
        assert time.monotonic() < end, seen[-2000:]
        select.select([terminal.end], [], [], 1.0)
        new = terminal.shown()
        if not new:
            assert terminal.process.poll() is None, seen[-2000:]
            continue
        now, now_waited = time.monotonic(), waited(pid) + waited("self")
        silence = now - last - max(0.0, now_waited - last_waited)  # a thread that ended takes its own with it
        if silence > longest:
            longest, before = silence, seen[-200:]
        seen, last, last_waited = seen + new, now, now_waited
    return longest, before, seen


def test_run_and_export_are_never_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm_python: Path) -> None:
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "sitecustomize.py").write_text(SLOW)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "slow"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    grpo_run, run = str(warm_python / "grpo-run"), str(tmp_path / "run")
    settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    training = Terminal([grpo_run, str(RECIPE), *settings, "--out", run], columns=100)
    exporting = None
    try:
        longest, before, seen = longest_silence(training, "step 1/1")
        assert longest <= LONGEST_S, before
        for phase in ("writing the run folder", "importing the libraries", "loading the model"):
            assert phase in seen
        longest_silence(training, "proofs      world")
        assert training.process.wait(timeout=60) == 0
        exporting = Terminal([grpo_run, "export", run, "-o", str(tmp_path / "exported")], columns=100)
        longest, before, seen = longest_silence(exporting, "exported    ")
        assert longest <= LONGEST_S, before
        assert re.search(r"export\S*  0:00:0[1-9]", seen)
        assert "proving what was written\r\n" in seen
        assert exporting.process.wait(timeout=60) == 0
    finally:
        for terminal in filter(None, (training, exporting)):
            terminal.leave()
