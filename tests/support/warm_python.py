"""Runs Python programs as forks of a server that has already imported torch, transformers and TRL.

`made(folder)` yields an environment whose bin/python is a small program. In a fork of the server it runs a worker's
train.py and meet.py, the parts for preflight, export, generate and profile, accelerate's launcher, the hand-written
scripts that trainings are compared with, gpu_kit's scripts that inspect torch or a model, and anything whose first
argument is -Xwarm. Everything else runs in the real Python, which reports the small program as sys.executable. The fork
has its caller's network and mounts and its own session, and is not a child of its caller: signals are passed on to it,
and it dies with the waiting process. Use the real Python in tests of how processes are started.
"""

import _imp
import atexit
import contextlib
import ctypes
import fcntl
import importlib
import io
import json
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import traceback
import types
import zipimport
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

PARTS = ("answering.start", "export.start", "preflight.play_tools", "preflight.start", "profile.start")

# Runs without site-packages, within milliseconds; what only the server needs is imported for the server alone.
_STUB = """{first_lines}import posix, sys
words = sys.argv[1:]
is_asked = words[:1] == ["-Xwarm"] or "accelerate.commands.launch" in words[:3]
is_asked = is_asked or (words[:1] == ["-c"] and "import json, torch" in words[1])
script = next((word for word in words if not word.startswith("-")), "")
parts = set({parts!r})
is_part = script.endswith(("worker/part.py", "worker/grpo_recipes.zip")) and parts & set(words)
is_by_hand = script.rpartition("/")[2].startswith("hand_written")
is_script = script.endswith(("worker/train.py", "worker/meet.py", "gpu_kit/scripts/make_model.py")) or is_by_hand
if not is_script and not is_part and not is_asked:
    posix.execv({real!r}, [sys.argv[0], *words])
import json, os, signal, socket
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    ignored = [number for number in range(1, 32) if signal.getsignal(number) == signal.SIG_IGN]
    own = {{"cwd": os.getcwd(), "environ": dict(os.environ), "python": sys.argv[0], "ignored": ignored}}
    request = json.dumps({{"words": words, **own}})
    namespaces = [os.open(f"/proc/self/ns/{{name}}", os.O_RDONLY) for name in ("net", "mnt")]
    socket.send_fds(server, [len(request.encode()).to_bytes(4, "big")], [0, 1, 2, *namespaces])
    server.sendall(request.encode())
    answers = server.makefile()
    child = int(answers.readline())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, _: os.kill(child, number))
    code = int(answers.readline() or 1)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), -code)
os._exit(code)
"""

# What needs no environment starts without the small program, and the program that watches each training from compiled
# files and not from the archive.
_DIRECT = """case "$1 $2 $3 $4" in
"-I -S "*"/grpo_recipes.zip survival.stall_monitor") shift 3; exec {real} -I -S {part} "$@" ;;
"-I -S "*) exec {real} "$@" ;;
esac
"""


def first_lines(*words: object, before: str = "") -> str:
    """Returns the first lines of a Python program that these words start: a `#!` line takes no path with a space."""
    return f"#!/bin/sh\n''':'\n{before}exec {shlex.join(map(str, words))} \"$0\" \"$@\"\n'''\n"


@contextmanager
def shared(folder: Path) -> Iterator[Path]:
    """As made, with one server for all test processes that use the folder: the first starts it and ends it as the last.

    Whoever uses the server has a shared lock on a file of the folder, which the kernel releases when a process dies.
    """
    folder.mkdir(exist_ok=True)
    with (folder / "starting").open("a") as starting, (folder / "using").open("a") as using:
        fcntl.flock(starting, fcntl.LOCK_EX)
        fcntl.flock(using, fcntl.LOCK_SH)
        if (folder / "server").exists():
            fcntl.flock(starting, fcntl.LOCK_UN)
            yield folder / "bin"
            return
        with made(folder) as programs:
            fcntl.flock(starting, fcntl.LOCK_UN)
            yield programs
            fcntl.flock(using, fcntl.LOCK_EX)


@contextmanager
def made(folder: Path) -> Iterator[Path]:
    """Starts the server, and yields the bin folder of an environment with the small program as its Python."""
    real, address = sys.executable, str(folder / "server")
    (folder / "bin").mkdir()
    (folder / "lib").symlink_to(Path(sys.prefix) / "lib")
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder)
    part = shlex.quote(str(Path(__file__).parents[2] / "grpo_recipes/worker/part.py"))
    direct = _DIRECT.format(real=shlex.quote(real), part=part)
    for name in ("python", "python3"):
        first = first_lines(real, "-IS", before=direct)
        text = _STUB.format(first_lines=first, parts=PARTS, real=real, address=address)
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    text = first_lines(folder / "bin" / "python") + "from grpo_recipes.cli.main import main\nmain()\n"
    (folder / "bin" / "grpo-run").write_text(text)
    (folder / "bin" / "grpo-run").chmod(0o755)
    own = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "DS_ACCELERATOR": "cpu"}
    with (folder / "stderr.txt").open("w") as errors:
        server = subprocess.Popen(
            [str(folder / "bin" / "python"), "-P", str(Path(__file__)), address],
            env={**os.environ, **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd="/",
        )
    assert server.stdin is not None and server.stdout is not None
    assert server.stdout.readline(), (folder / "stderr.txt").read_text()[-2000:]
    yield folder / "bin"
    server.stdin.close()
    server.wait(timeout=180)


_of_parts: dict[str, types.ModuleType] = {}


def _import_parts() -> None:
    """Imports what worker/part.py runs, a third of a short part. A worker does not see it: it imports its archive."""
    root = Path(__file__).parents[2]
    sys.path.insert(0, str(root))
    for file in (root / "grpo_recipes/worker").glob("*/**/*.py"):
        importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"))
    del sys.path[0]
    for name in [name for name in sys.modules if name.partition(".")[0] == "grpo_recipes"]:
        _of_parts[name] = sys.modules.pop(name)


def _compile_once() -> None:
    """Caches compiled code by its text, so that equal workers of several run folders are compiled once."""
    package = Path(__file__).parents[2] / "grpo_recipes"
    files = [path for part in ("contract", "worker", "rewards") for path in (package / part).rglob("*.py")]
    compiled = {path.read_bytes(): SourceFileLoader("", str(path)).get_code("") for path in files}
    compile_anew = SourceFileLoader.source_to_code

    def code_of(self: SourceFileLoader, data: bytes, path: str, **more: Any) -> Any:
        code = compiled.get(data)
        if code is None:
            return compile_anew(self, data, path, **more)
        _imp._fix_co_filename(code, path)
        return code

    SourceFileLoader.source_to_code = code_of  # type: ignore[method-assign, assignment]
    compile_of_archive = zipimport._compile_source  # type: ignore[attr-defined]

    def code_of_archive(path: str, data: bytes) -> Any:
        code = compiled.get(data)
        if code is None:
            return compile_of_archive(path, data)
        _imp._fix_co_filename(code, path)
        return code

    zipimport._compile_source = code_of_archive  # type: ignore[attr-defined]


class _Served:
    """A fork, and the process that waits for it."""

    def __init__(self, connection: socket.socket, child: int) -> None:
        self.connection, self.child, self.ended = connection, child, os.pidfd_open(child)

    def answer(self) -> None:
        """Reports how the fork ended."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
        with contextlib.suppress(OSError):
            self.connection.sendall(f"{code}\n".encode())
        self.connection.close()
        os.close(self.ended)

    def kill(self) -> None:
        """Ends a fork whose waiting process has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child, signal.SIGKILL)
        self.answer()


def _serve(address: str) -> None:
    """Serves until the other end of standard input is closed."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        os.write(1, b"ready\n")
        served: list[_Served] = []
        while True:
            gone = {each.connection.fileno(): each for each in served}
            ended = {each.ended: each for each in served}
            for ready in select.select([0, listener.fileno(), *gone, *ended], [], [])[0]:
                if ready == 0:
                    for each in served:
                        each.kill()
                    return
                if ready == listener.fileno():
                    served.append(_begun(listener))
                elif (one := ended.get(ready) or gone[ready]) in served:
                    served.remove(one)
                    one.answer() if ready in ended else one.kill()


def _begun(listener: socket.socket) -> _Served:
    connection, _ = listener.accept()
    head, files, _, _ = socket.recv_fds(connection, 4, 5)
    with connection.makefile("rb") as stream:
        request = json.loads(stream.read(int.from_bytes(head, "big")))
    child = os.fork()
    if child == 0:
        listener.close()
        connection.close()
        _run(request, files)
    for file in files:
        os.close(file)
    connection.sendall(f"{child}\n".encode())
    return _Served(connection, child)


def _run(request: dict[str, Any], files: list[int]) -> None:
    """Runs a request's program in the fork; never returns. files: the caller's streams, network and mounts."""
    code = 1
    try:
        _enter("mnt", files.pop())
        _enter("net", files.pop())
        _settle(request, files)
        # torch makes its pool of threads anew after a fork.
        sys.modules["torch"].set_num_threads(sys.modules["torch"].get_num_threads())
        code = _exit_code(request["words"])
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _enter(name: str, namespace: int) -> None:
    """Moves the fork into its caller's namespace of that name."""
    if os.fstat(namespace).st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(namespace, 0):
            raise OSError(ctypes.get_errno(), "setns")
    os.close(namespace)


def _settle(request: dict[str, Any], streams: list[int]) -> None:
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in request["ignored"]:  # by launch.sh, for all that it starts
        signal.signal(number, signal.SIG_IGN)
    sys.executable = request["python"]
    sys.orig_argv = [request["python"], *request["words"]]
    sys.path[:0] = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    with contextlib.suppress(ModuleNotFoundError):
        import sitecustomize  # noqa: F401 (as the interpreter does when it starts)
    is_unbuffered = "-u" in request["words"]
    for number, name in ((1, "stdout"), (2, "stderr")):
        raw = io.FileIO(number, "w", closefd=False)
        file = io.TextIOWrapper(
            raw if is_unbuffered else io.BufferedWriter(raw),  # type: ignore[type-var]
            encoding="utf-8",
            errors="backslashreplace" if number == 2 else "strict",
            line_buffering=number == 2 or os.isatty(number),
            write_through=is_unbuffered,
        )
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)


def _program(words: list[str]) -> None:
    """Handles arguments as the interpreter does: a text, a module or a file, and the first entry of the module path."""
    place = next(place for place, word in enumerate(words) if word in ("-c", "-m") or not word.startswith("-"))
    kind, sys.argv = words[place], words[place:]
    if kind == str(Path(__file__).parents[2] / "grpo_recipes/worker/part.py"):
        sys.modules.update(_of_parts)
    first = {"-c": "", "-m": os.getcwd()}.get(kind, os.path.dirname(os.path.abspath(kind)))
    sys.path[:0] = [] if "-P" in words[:place] else [first]
    if kind == "-c":
        text = sys.argv.pop(1)
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(compile(text, "<string>", "exec"), main.__dict__)
    elif kind == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(kind, run_name="__main__")


def _exit_code(words: list[str]) -> int:
    """Exits as the interpreter does: runs exit handlers, then returns SystemExit's code or 1."""
    code = 0
    try:
        _program(words)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    return code & 0xFF


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from support.libraries import import_libraries

    del sys.path[0]
    _import_parts()
    import_libraries()
    _compile_once()
    _serve(sys.argv[1])
    os._exit(0)
