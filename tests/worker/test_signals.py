"""The first signal asks, a second one after a while ends."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, sys, threading, time
from grpo_recipes.worker.survival.interruption import Interruption

request = Interruption(lambda: print("recorded", flush=True), grace_s=0.5)
request.can_wait = True
request.listen()
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGALRM)).start()
signal.signal(signal.SIGALRM, lambda *_: None)
time.sleep(0.3)
print("asked", request.requested, flush=True)
for number, pause in SIGNALS:
    os.kill(os.getpid(), number)
    time.sleep(pause)
    print("asked", request.requested, flush=True)
"""
CASES = [
    pytest.param("[]", 0, ["asked False"], id="another signal is none of its business"),
    pytest.param("[(signal.SIGTERM, 0.1)]", 0, ["asked False", "asked True"], id="one"),
    pytest.param(
        "[(signal.SIGINT, 0.1), (signal.SIGTERM, 0.1)]",
        0,
        ["asked False", "asked True", "asked True"],
        id="the same wish twice, from terminal and launcher",
    ),
    pytest.param(
        "[(signal.SIGTERM, 0.8), (signal.SIGTERM, 0.8)]",
        75,
        ["asked False", "asked True", "recorded"],
        id="a second one",
    ),
]


@pytest.mark.parametrize(("signals", "exit_code", "lines"), CASES)
@pytest.mark.processes
def test_a_second_signal_ends_at_once_and_an_echo_does_not(signals: str, exit_code: int, lines: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("SIGNALS", signals)], capture_output=True, text=True, timeout=180
    )
    assert (done.returncode, done.stdout.splitlines()) == (exit_code, lines), done.stderr
