"""Runs a rank's tools in a separate process, started once and replaced when it is lost. Both sides are here.

The process runs only the user's functions, in limited memory, and imports only the standard library. Requests and
answers are JSON; the output of tools goes to the run's log. It ends on request, when the training ends for any reason,
and when a call far exceeds its limit.
"""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import grpo_recipes
from grpo_recipes.contract.host.processes import ASKING
from grpo_recipes.worker.user_code.reward_call import place_of, text_of
from grpo_recipes.worker.user_code.user_modules import user_module

MOST_BYTES = 64 << 10
"""Maximum size of a result as text; a note tells the policy that the rest was cut."""
_LONGEST = 64 << 20

Result = str | list[dict[str, Any]]


def answer_for_policy(result: object) -> Result:
    """Returns a tool's result as TRL adds it to the conversation: blocks of text unchanged, everything else as text."""
    if isinstance(result, list) and result and all(map(_is_text_block, result)):
        blocks = [{"type": "text", "text": printable(each["text"])} for each in result]
        if sum(len(each["text"].encode()) for each in blocks) <= MOST_BYTES:
            return blocks
        return cut_text("\n".join(each["text"] for each in blocks))
    return cut_text(result if isinstance(result, str) else str(result))


def error_text(problem: BaseException) -> str:
    """Returns an exception's text for the policy; its type if the text is empty, or for SystemExit and the like."""
    kind = type(problem).__name__
    text = text_of(problem)
    return cut_text((text or kind) if isinstance(problem, Exception) else f"{kind}: {text}".rstrip(": "))


def cut_text(text: str) -> str:
    """Returns the text cut to 64 KiB, with a note if it was cut."""
    text = printable(text)
    content = text.encode()
    if len(content) <= MOST_BYTES:
        return text
    note = f"\n[cut: {len(content)} bytes, of which the model gets {MOST_BYTES >> 10} KiB]"
    return content[: MOST_BYTES - len(note.encode())].decode(errors="ignore") + note


def printable(text: str) -> str:
    """Returns the text with question marks for characters that cannot be encoded, such as lone surrogates."""
    return text.encode("utf-8", "replace").decode()


def _is_text_block(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)


MEMORY_BYTES = 1 << 30
LOADING_S = 120.0
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from grpo_recipes.worker.tools.tool_process import serve; "
    "serve(*map(int, sys.argv[2:]))"
)
# A single thread for numeric libraries: each thread takes address space, which is limited.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_OF_A_RANK = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

Sources = tuple[str, dict[Path, bytes]]
"""The name of a tool's function, and its files as checked, starting with its own."""


class ToolFailed(Exception):
    """A call failed; the text is for the policy. place: the line that raised, "" without one.

    by: "time" or "end" if the call, or its process, was ended; "" for an exception of the tool.
    """

    def __init__(self, text: str, line: str = "", by: Literal["", "time", "end"] = "") -> None:
        super().__init__(text)
        self.place, self.by = line, by


class ToolProcess:
    """Calls tools in a separate process. tools: by name. memory_bytes: address space that they share.

    user: the folder of their files, to name their lines.
    """

    def __init__(self, tools: Mapping[str, Sources], user: Path, memory_bytes: int = MEMORY_BYTES) -> None:
        self.starts = 0
        self._tools, self._user, self._memory_bytes = tools, str(user), memory_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def start(self) -> None:
        """Starts the process and loads the tools. Raises ToolFailed if one cannot be loaded."""
        ours, theirs = Pipe()
        arguments = [str(Path(grpo_recipes.__file__).parents[1]), theirs.fileno(), os.getpid(), self._memory_bytes]
        variables = {name: value for name, value in os.environ.items() if name not in _OF_A_RANK}
        with theirs:
            self._connection = ours
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-P", "-c", _PROGRAM, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env={**variables, **_ONE_THREAD, "PYTHONHASHSEED": "0"},
            )
        self.starts += 1
        tools = {
            name: (target, [(str(path), content.decode()) for path, content in sources.items()])
            for name, (target, sources) in self._tools.items()
        }
        self._ask({"do": "load", "tools": tools}, LOADING_S, "loading it")

    def call(self, tool: str, arguments: Mapping[str, Any], limit_s: float, seed: str) -> Result:
        """Returns a tool's answer. seed: of its random numbers. Raises ToolFailed."""
        if self._process is None:
            self.start()
        request = {"do": "call", "tool": tool, "arguments": arguments, "seed": seed}
        result: Result = self._ask(request, limit_s, tool)["result"]
        return result

    def close(self) -> None:
        """Ends the process and what it started; the next call starts a new one."""
        process, self._process = self._process, None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _ask(self, request: dict[str, Any], limit_s: float, what: str) -> dict[str, Any]:
        assert self._connection is not None and self._process is not None
        process = self._process
        answer = None
        try:
            self._connection.send_bytes(json.dumps({**request, "limit_s": limit_s, "user": self._user}).encode())
            if not self._connection.poll(limit_s):
                raise ToolFailed(f"{what} took longer than {limit_s:g} seconds and was ended", by="time")
            answer = json.loads(self._connection.recv_bytes(_LONGEST))
        except (EOFError, ConnectionError):
            pass  # its process has ended
        except (OSError, ValueError, TypeError) as problem:
            raise ToolFailed(f"{what} could not be called: {cut_text(str(problem))}") from None
        finally:
            if answer is None or answer.get("ends"):
                self.close()
        if answer is None:
            raise ToolFailed(f"{what} ended its process ({_end(process.returncode)})", by="end")
        if "error" in answer:
            raise ToolFailed(answer["error"], answer.get("place", ""), "end" if answer.get("ends") else "")
        response: dict[str, Any] = answer
        return response


def _end(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        return f"exit code {code}"


OUT_OF_MEMORY = "out of memory"
LOOKS_EVERY_S = 0.5
GRACE_S = 5.0
"""The trainer ends a call after its limit; without a trainer the kernel does, this much later."""


def serve(channel: int, trainer: int, memory_bytes: int) -> None:
    """Answers requests on the channel, a socket's number, until it is closed. trainer: the parent's process id."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    for asking in ASKING:
        # When asked to stop, the trainer finishes its step, so its tools ignore the signal. Processes that they start
        # do not.
        signal.signal(asking, _goes_on)
    threading.Thread(target=_end_with, args=(trainer,), daemon=True).start()
    own = os.getpid()
    functions: dict[str, Callable[..., Any]] = {}
    with Connection(channel) as connection, suppress(EOFError):
        answer: dict[str, Any] = {}
        while not answer.get("ends"):
            answer = _answer(json.loads(connection.recv_bytes()), functions)
            if os.getpid() != own:
                os._exit(1)  # a fork in the tool has returned
            connection.send_bytes(json.dumps(answer).encode())
    os._exit(0)


def _answer(request: dict[str, Any], functions: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    """Returns a request's result: functions loaded into `functions`, or a call of one. Catches everything."""
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
        return {"result": answer_for_policy(functions[request["tool"]](**request["arguments"]))}
    except MemoryError:
        # Its memory is free again, but fragmented: the next call gets a new process.
        return {"error": OUT_OF_MEMORY, "ends": True}
    except BaseException as problem:
        return {"error": error_text(problem), "place": place_of(problem, user)}
    finally:
        _end_at(None)


def _end_at(moment: float | None) -> None:
    """Makes the kernel end this process at a given time, whatever it does; None cancels that."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0 if moment is None else max(0.001, moment - time.monotonic()))


def _end_with(trainer: int) -> None:
    """Ends this process and its group when the trainer is gone."""
    while os.getppid() == trainer:
        time.sleep(LOOKS_EVERY_S)
    os.killpg(os.getpid(), signal.SIGKILL)


def _goes_on(_: int, __: FrameType | None) -> None:
    """Ignores signals that ask the run to stop: the trainer answers them."""
