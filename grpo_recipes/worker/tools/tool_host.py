"""The process that a rank's tools are called in: it runs the user's functions and nothing else, in bounded memory.

It imports the standard library alone. What it is asked and what it answers are JSON; what a
tool prints goes to the log of the run. It ends when it is asked to, when the training does, however that ended, and
where a call goes on long after its limit and nobody is there to end it.
"""

import json
import os
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

from grpo_recipes.contract.host.processes import ASKING
from grpo_recipes.worker.tools.tool_process import error_text, told
from grpo_recipes.worker.user_code.outcome import place_of
from grpo_recipes.worker.user_code.user_modules import user_module

OUT_OF_MEMORY = "out of memory"
LOOKS_EVERY_S = 0.5
GRACE_S = 5.0
"""Beyond its limit a call is ended by the trainer; so much later by the kernel, should there be none."""


def serve(channel: int, trainer: int, memory_bytes: int) -> None:
    """Answers what comes through the channel, a socket's number, until it is closed. trainer: the parent's process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    for asking in ASKING:
        # The trainer finishes its step when it is asked to stop, and so its tools do. What they start can be asked.
        signal.signal(asking, _goes_on)
    threading.Thread(target=_end_with, args=(trainer,), daemon=True).start()
    own = os.getpid()
    functions: dict[str, Callable[..., Any]] = {}
    with Connection(channel) as connection, suppress(EOFError):
        answer: dict[str, Any] = {}
        while not answer.get("ends"):
            answer = _answer(json.loads(connection.recv_bytes()), functions)
            if os.getpid() != own:
                os._exit(1)  # a fork of the tool's that came back
            connection.send_bytes(json.dumps(answer).encode())
    os._exit(0)


def _answer(request: dict[str, Any], functions: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    """What a request gives: functions loaded into `functions`, or a call of one. Catches everything."""
    _end_at(time.monotonic() + request["limit_s"] + GRACE_S)
    user = request["user"]
    try:
        if request["do"] == "load":
            for name, (target, sources) in request["tools"].items():
                module = user_module({Path(path): text.encode() for path, text in sources})
                functions[name] = getattr(module, target)
            return {}
        random.seed(request["seed"])
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(random.getrandbits(32))
        return {"result": told(functions[request["tool"]](**request["arguments"]))}
    except MemoryError:
        # What it took is free again by now, in pieces: the next call gets a process that has all of its memory.
        return {"error": OUT_OF_MEMORY, "ends": True}
    except BaseException as problem:
        return {"error": error_text(problem), "place": place_of(problem, user)}
    finally:
        _end_at(None)


def _end_at(moment: float | None) -> None:
    """Lets the kernel end this process at a moment, whatever it does by then; None not any more."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0 if moment is None else max(0.001, moment - time.monotonic()))


def _end_with(trainer: int) -> None:
    """Ends this process and all of its group when the trainer is gone."""
    while os.getppid() == trainer:
        time.sleep(LOOKS_EVERY_S)
    os.killpg(os.getpid(), signal.SIGKILL)


def _goes_on(_: int, __: FrameType | None) -> None:
    """A signal that asks the run to stop is the trainer's to answer."""
