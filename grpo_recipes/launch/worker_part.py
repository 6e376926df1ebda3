"""Runs a part of the worker in a temporary folder to its end, and leaves neither a process nor a file."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib.resources import files
from pathlib import Path
from typing import Any

from grpo_recipes.contract.exits import EXIT_INTERNAL, Refusal
from grpo_recipes.contract.files.exchange_files import NOW, PROGRESS_FILE, read_answer, write_request
from grpo_recipes.contract.findings.finding import mistake
from grpo_recipes.contract.host import supervisor
from grpo_recipes.contract.host.child_environment import absolute_places
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.launch.display import busy
from grpo_recipes.launch.progress import Progress
from grpo_recipes.launch.stop_signals import install_handler
from grpo_recipes.launch.train_log import open_redacted_log
from grpo_recipes.render.launch_script import fill, variables_to_export
from grpo_recipes.render.run_folder import write_run_folder

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LEAVE_S = 25.0
_SHOWN_LINES = 30
_LOOKS_EVERY_S = 0.2

Exchange = Callable[..., dict[str, Any]]
"""Sends a message to a conversing part and returns its answer: exchange(what it is busy with, message or None).

Raises EOFError once the part has ended.
"""


@contextlib.contextmanager
def _temporary_folder(what: str) -> Iterator[str]:
    """A temporary folder that is removed even if a signal ends the command, which becomes KeyboardInterrupt."""
    with install_handler(ENDING, _interrupt):
        folder = tempfile.mkdtemp(prefix=f"grpo-run-{what}-")
        try:
            yield folder
        finally:
            with _not_interrupted():
                shutil.rmtree(folder, ignore_errors=True)


def _answer_of(folder: str, what: str, talk: Callable[[Exchange], None] | None) -> dict[str, Any]:
    """The JSON answer that launch.sh of a folder writes into it. what: the name of the command.

    Progress goes to stderr, and to `talk` during a conversation. Raises Refusal with the end of the output if there is
    no answer.
    """
    log = Path(folder, f"{what}.log")
    scratch = os.path.join(folder, "tmp")  # files that rewards leave there are removed with the folder
    os.mkdir(scratch)
    with open_redacted_log(str(log)) as (output, _):
        stdin = subprocess.DEVNULL if talk is None else subprocess.PIPE
        child = supervisor.start_supervisor(
            folder, output, {**absolute_places(os.environ)[0], "TMPDIR": scratch}, stdin=stdin
        )
        lines = _lines(child, Path(folder, PROGRESS_FILE))
        try:
            if talk is None:
                with busy(what) as shown:
                    _follow(lines, shown)
            else:
                _talk(child, lines, talk)
        finally:
            with _not_interrupted():
                _end(child)
    try:
        return read_answer(Path(folder))
    except FileNotFoundError:
        last = redact(log.read_text(encoding="utf-8", errors="replace")).splitlines()[-_SHOWN_LINES:]
        raise Refusal(
            mistake(
                f"the {what} ended with {child.returncode} before it could answer",
                seen=[f"| {line}" for line in last],
            ),
            exit_code=EXIT_INTERNAL,
        ) from None


def _lines(child: "subprocess.Popen[bytes]", progress: Path) -> Iterator[str]:
    """Yields each line of progress as it arrives, until the child has ended."""
    count, ended = 0, False
    while not ended:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=_LOOKS_EVERY_S)
        ended = child.returncode is not None
        lines = progress.read_text(encoding="utf-8").splitlines(keepends=True) if progress.exists() else []
        for line in lines[count:]:
            if line.endswith("\n"):
                count += 1
                yield line.rstrip("\n")


def _follow(lines: Iterator[str], shown: Progress) -> None:
    """Waits for the end, and shows each line of progress."""
    began = time.time()
    for line in lines:
        if line.startswith(NOW):
            shown.show({"event": "phase", "name": line.removeprefix(NOW), "began": began})
        else:
            shown.say(line)


def _talk(child: "subprocess.Popen[bytes]", lines: Iterator[str], talk: Callable[[Exchange], None]) -> None:
    """Runs a command's conversation with the part, then waits for its end."""
    assert child.stdin is not None
    given = child.stdin

    def exchange(words: str, message: Mapping[str, object] | None = None) -> dict[str, Any]:
        with busy(words):
            if message is not None:
                with contextlib.suppress(BrokenPipeError):  # it has ended, and its lines with it
                    given.write(f"{json.dumps(message)}\n".encode())
                    given.flush()
            for line in lines:
                heard: dict[str, Any] = json.loads(line)
                return heard
        raise EOFError

    with contextlib.suppress(EOFError):
        talk(exchange)
    with contextlib.suppress(BrokenPipeError):
        given.close()
    for _ in lines:
        pass


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _not_interrupted() -> AbstractContextManager[None]:
    """Blocks signals during clean-up, so that an impatient second Ctrl-C does not leave half of it."""
    return install_handler(ENDING, signal.SIG_IGN)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Signals the supervisor twice, which makes it kill everything below it, and waits."""
    if child.poll() is not None:
        return
    for _ in range(2):
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=0.3)
    try:
        child.wait(timeout=_LEAVE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def part_answer(
    plan: Plan,
    part: str,
    what: str,
    request: Mapping[str, object],
    recipe_text: str | None = None,
    talk: Callable[[Exchange], None] | None = None,
) -> dict[str, Any]:
    """The answer of a part, which runs with the plan's environment. what: the name of the command.

    Uses the installed package's part, since the worker in the run folder may be of an older release without it.
    recipe_text: of a plan without a run folder; the part then gets one, named `run`.
    talk: exchanges messages with a part that reads them from stdin and sends each answer as a line of progress. Raises
    Refusal for an environment variable that a recipe may not set, or without an answer.
    """
    with _temporary_folder(what) as folder:
        if recipe_text is not None:
            write_run_folder(plan, os.path.join(folder, "run"), recipe_text)
        program = Path(str(files("grpo_recipes"))) / "worker" / "part.py"
        script = fill("part.sh.j2", part=part, program=str(program), environment=variables_to_export(plan))
        Path(folder, "launch.sh").write_text(script, encoding="utf-8", newline="\n")
        write_request(Path(folder), request)
        return _answer_of(folder, what, talk)
