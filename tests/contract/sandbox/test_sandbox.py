"""A program in the sandbox reaches nothing but its folder: from Python and from C, as root and as an ordinary user."""

import contextlib
import json
import os
import platform
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import attempts
import pytest

import grpo_recipes
from grpo_recipes.contract.plan_sections import SANDBOX_VARIABLE
from grpo_recipes.contract.sandbox import run as sandbox
from grpo_recipes.contract.sandbox.bounded_command import ProgramEnd
from grpo_recipes.contract.sandbox.run import Limits, NoSandbox, abi, run
from grpo_recipes.contract.sandbox.system_calls import ARCHITECTURES, CLONE, REFUSED

pytestmark = pytest.mark.processes
ROOT = Path(grpo_recipes.__file__).parents[1]
ORDINARY = 54_321
MODES = [("landlock", None), ("landlock", 1), ("landlock", 3), ("bubblewrap", None)]
NAMES = ["landlock", "landlock of Linux 5.13", "landlock of Linux 6.2", "bubblewrap"]


def limits(**others: int) -> Limits:
    """Limits without one by the clock that a busy machine reaches."""
    return replace(Limits(wall_s=300), **others)


LIMITS = limits(cpu_s=10, printed_bytes=20_000)
# Runs one program as another user and prints how it ended. The module needs the standard library alone.
AS_ORDINARY = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from grpo_recipes.contract.sandbox.run import Limits, run
program, limits, given, mechanism, landlock_abi = json.load(sys.stdin)
ended = run(program, Limits(**limits), given, mechanism=mechanism, landlock_abi=landlock_abi)
print(json.dumps([ended.printed.decode("utf-8", "replace"), ended.is_cut, ended.in_time, ended.code]))
"""
SETPRIV = shutil.which("setpriv")
PYTHON = "/usr/bin/python3"


def skip_without(mechanism: str) -> None:
    """Skips a test of what this machine lacks."""
    if mechanism == "landlock" and not abi():
        pytest.skip("the kernel has no Landlock")
    if mechanism == "bubblewrap" and not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    if mechanism == "bubblewrap" and not sandbox._holds("bubblewrap"):
        pytest.skip("bubblewrap may make no namespaces here")


def run_as(who: str, program: str, limits: Limits, given: Any, mechanism: Any, landlock_abi: int | None) -> ProgramEnd:
    """How a program ends as "root" or as an "ordinary" user; as whoever runs the tests where that is no root."""
    if (who == "root") != (os.geteuid() == 0):
        if who == "root":
            pytest.skip("the tests do not run as root")
    elif who == "root":
        return run(program, limits, given, mechanism=mechanism, landlock_abi=landlock_abi)
    if os.geteuid() != 0:
        return run(program, limits, given, mechanism=mechanism, landlock_abi=landlock_abi)
    words = [str(SETPRIV), f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups", PYTHON, "-c", AS_ORDINARY]
    asked = [program, {name: getattr(limits, name) for name in Limits.__slots__}, given, mechanism, landlock_abi]
    found = subprocess.run(
        [*words, str(ROOT)], input=json.dumps(asked), capture_output=True, text=True, cwd="/", check=False
    )
    if found.returncode:
        pytest.skip(f"an ordinary user cannot run {PYTHON} with {ROOT}: {found.stderr[-300:]}")
    printed, *others = json.loads(found.stdout)
    return ProgramEnd(printed.encode(), *others)


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder whose files everybody may write, one for each attempt."""
    folder = Path(tempfile.mkdtemp(prefix="elsewhere-"))
    for place in range(len(attempts.ALL)):
        (folder / str(place)).write_text("mine")
        with contextlib.suppress(OSError):  # a file system may have none
            os.setxattr(folder / str(place), "user.told", b"mine")
    for path in (folder, *folder.iterdir()):
        path.chmod(0o777 if path == folder else 0o666)
        if os.geteuid() == 0:
            os.chown(path, ORDINARY, ORDINARY)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process of the ordinary user, or of the tests' own."""
    own = [str(SETPRIV), f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups"] if os.geteuid() == 0 else []
    child = subprocess.Popen([*own, "sleep", "300"])
    yield child.pid
    assert child.poll() is None, "nothing has ended it"
    child.kill()
    child.wait()


def outcomes(who: str, elsewhere: Path, sleeper: int, mechanism: Any, landlock_abi: int | None) -> dict[str, str]:
    """What came of each attempt."""
    numbers = {**REFUSED, "clone": CLONE}
    column = list(ARCHITECTURES).index(platform.machine())
    with (
        socket.socket() as tcp,
        socket.socket(1, 1) as unix,
        socket.socket(1, 1) as abstract,
        socket.socket(1, socket.SOCK_DGRAM) as datagrams,
        socket.socket(1, socket.SOCK_DGRAM) as abstract_datagrams,
    ):
        tcp.bind(("127.0.0.1", 0))
        tcp.listen(8)
        path = f"{elsewhere}/listening"
        unix.bind(path)
        os.chmod(path, 0o777)
        abstract.bind(f"\0{path}")
        datagrams.bind(f"{path}-datagrams")
        os.chmod(f"{path}-datagrams", 0o777)
        abstract_datagrams.bind(f"\0{path}-datagrams")
        unix.listen()
        abstract.listen()
        given = {
            "attempts": attempts.ALL,
            "folder": str(elsewhere),
            "process": sleeper,
            "port": tcp.getsockname()[1],
            "unix": path,
            "datagrams": f"{path}-datagrams",
            "numbers": {name: number[column] for name, number in numbers.items()},
        }
        ended = run_as(who, attempts.PROGRAM, LIMITS, given, mechanism, landlock_abi)
        assert ended.code == 0, ended.printed.decode()
        for listening in (tcp, unix, abstract):
            listening.setblocking(False)
            if mechanism != "none":
                with pytest.raises(BlockingIOError):
                    listening.accept()
        for receiving in (datagrams, abstract_datagrams):
            receiving.setblocking(False)
            if mechanism != "none":
                with pytest.raises(BlockingIOError):
                    receiving.recv(9)
    os.remove(path)
    os.remove(f"{path}-datagrams")
    found: dict[str, str] = json.loads(ended.printed)
    return found


def seen(folder: Path) -> list[tuple[object, ...]]:
    """All of a folder that an attempt could change."""
    rows: list[tuple[object, ...]] = []
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        rows.append((path.name, path.read_text(), status.st_mode, status.st_uid, status.st_mtime_ns, status.st_nlink))
        rows.append(tuple(os.listxattr(path)))
    return rows


@pytest.mark.parametrize(("mechanism", "landlock_abi"), MODES, ids=NAMES)
@pytest.mark.parametrize("who", ["root", "ordinary"])
def test_no_attempt_succeeds(who: str, mechanism: str, landlock_abi: int | None, elsewhere: Path, sleeper: int) -> None:
    skip_without(mechanism)
    before = seen(elsewhere)
    found = outcomes(who, elsewhere, sleeper, mechanism, landlock_abi)
    assert [what for what, outcome in found.items() if outcome == "done"] == []
    assert seen(elsewhere) == before


# Nobody answers the request; file systems and settings of the kernel may lack the others.
MAY_FAIL = {"connect: urllib", "write: attribute", "read: an attribute", "process: C page faults", "process: C trace"}
# A container may refuse them.
NAMESPACES = {"process: C namespace", "process: C clone into a namespace"}


def test_each_succeeds_without_a_sandbox(elsewhere: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("an ordinary user cannot do all of it without a sandbox")
    with subprocess.Popen(["sleep", "300"]) as child:
        found = outcomes("root", elsewhere, child.pid, "none", None)
        child.kill()
    failed = {what for what, outcome in found.items() if outcome != "done"}
    assert failed - NAMESPACES <= MAY_FAIL
    assert len(found) >= 60
    if failed & NAMESPACES:
        pytest.skip("this machine makes no user namespaces; every other attempt succeeds")


USED = """
import asyncio, dbm.dumb, getpass, json, math, os, shutil, socket, sqlite3, subprocess, sys, tempfile, threading
db = sqlite3.connect("own.db"); db.execute("create table t(a)"); db.commit()
print(subprocess.run(["sh", "-c", "echo a > b; cat b; ls | wc -l"], capture_output=True, text=True, check=True).stdout)
os.makedirs("x/y"); os.rename("b", "c"); os.remove("c"); os.symlink("x", "z")
with tempfile.TemporaryFile() as file: file.write(b"1")
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
print(asyncio.run(asyncio.sleep(0, "awaited")), json.dumps(math.sqrt(4)))
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK):
    a, b = socket.socketpair(socket.AF_UNIX, kind); a.sendall(b"x"); print(b.recv(1).decode())
open("m2.py", "w").write("seven = 7"); import m2; print(m2.seven)
shutil.copy("m2.py", "m3.py"); shutil.copy2("m2.py", "x"); shutil.copytree("x", "w"); print(*sorted(os.listdir("w")))
print(getpass.getuser(), os.path.expanduser("~") == os.getcwd(), *sorted(set(os.environ) - {"LC_CTYPE", "PWD"}))
threads = [threading.Thread(target=threading.Event().wait, args=(0.2,)) for _ in range(10)]
for each in threads: each.start()
for each in threads: each.join()
from multiprocessing import Pipe, Process
here, there = Pipe(); child = Process(target=there.send, args=("sent",)); child.start(); print(here.recv())
child.join()
"""


@pytest.mark.parametrize(("mechanism", "landlock_abi"), MODES, ids=NAMES)
@pytest.mark.parametrize("who", ["root", "ordinary"])
def test_what_code_rightly_does_works(who: str, mechanism: str, landlock_abi: int | None) -> None:
    skip_without(mechanism)
    ended = run_as(who, USED, LIMITS, None, mechanism, landlock_abi)
    assert ended.printed.decode().split() == [
        *("a", "2", "thread", "awaited", "2.0", "x", "x", "7", "m2.py", "y", "program", "True"),
        *("HOME", "LOGNAME", "OMP_NUM_THREADS", "USER", "sent"),
    ]


@pytest.mark.parametrize("mechanism", ["landlock", "bubblewrap"])
def test_a_program_is_the_main_module(mechanism: Any) -> None:
    skip_without(mechanism)
    program = (
        "import pickle, unittest\nclass Own: pass\nprint(type(pickle.loads(pickle.dumps(Own()))) is Own, flush=True)\n"
        "class T(unittest.TestCase):\n    def test_it(self): self.fail('wrong')\nunittest.main(exit=False)"
    )
    printed = run(program, LIMITS, mechanism=mechanism).printed.decode()
    assert printed.startswith("True\n")
    assert "Ran 1 test" in printed
    assert "FAILED" in printed


ENDS = {
    "os._exit(3)": 3,
    "os._exit(200)": 200,
    "os.abort()": -6,
    "os.kill(0, 9)": -9,
    "ctypes.string_at(0)": -11,
    "os.execv('/bin/sh', ['sh', '-c', 'exit 4'])": 4,
    "print(1, flush=True)\nwhile True: pass": -24,
}


@pytest.mark.parametrize("mechanism", ["landlock", "bubblewrap"])
@pytest.mark.parametrize("program", ENDS)
def test_how_it_ended_is_told(program: str, mechanism: Any) -> None:
    skip_without(mechanism)
    if mechanism == "bubblewrap" and "kill(0" in program:
        program = "os.kill(os.getpid(), 9)"
    ended = run(f"import ctypes, os\n{program}", limits(cpu_s=1), mechanism=mechanism)
    assert (ended.in_time, ended.code) == (True, ENDS.get(program, -9))
    assert ended.printed == (b"1\n" if "print" in program else b"")


@pytest.mark.parametrize("mechanism", ["landlock", "bubblewrap"])
def test_computing_ends_though_the_program_ignores_the_signal(mechanism: Any) -> None:
    skip_without(mechanism)
    program = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    ended = run(program, limits(cpu_s=1), mechanism=mechanism)
    assert (ended.in_time, ended.code) == (True, -9)


def test_no_child_is_left_to_the_process_that_runs_it() -> None:
    skip_without("landlock")
    before = _children()
    number = CLONE[list(ARCHITECTURES).index(platform.machine())]
    program = "import ctypes, os\nctypes.CDLL(None).syscall(given, 0x8000 | 17, 0, 0, 0, 0) or os._exit(0)"
    run(program, limits(), number)
    assert _children() == before


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.mark.parametrize("mechanism", ["landlock", "none"])
def test_it_ends_with_the_process_that_runs_it(mechanism: str) -> None:
    if mechanism == "landlock":
        skip_without(mechanism)
    program = "import time; time.sleep(120)"
    words = f"from {sandbox.__name__} import Limits, run\nrun({program!r}, Limits(wall_s=120), mechanism={mechanism!r})"
    runner = subprocess.Popen([sys.executable, "-c", words], cwd=ROOT)
    children = Path(f"/proc/{runner.pid}/task/{runner.pid}/children")
    deadline = time.monotonic() + 60
    try:
        while (
            not (child := children.read_text().split())
            or b"_restrict_files" not in Path(f"/proc/{child[0]}/cmdline").read_bytes()
        ):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1)
    finally:
        runner.kill()
        runner.wait()
    ended = os.pidfd_open(int(child[0])) if Path(f"/proc/{child[0]}").exists() else None
    assert ended is None or select.select([ended], [], [], 30)[0], "it sleeps on"


def test_a_pair_of_sockets_cannot_be_sent_elsewhere(tmp_path: Path) -> None:
    skip_without("landlock")
    program = """
import errno, socket
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    for attempt in ("sendto", "sendmsg", "connect"):
        a, b = socket.socketpair(socket.AF_UNIX, kind)
        b.close()
        try:
            match attempt:
                case "sendto": a.sendto(b"x", given)
                case "sendmsg": a.sendmsg([b"x"], [], 0, given)
                case "connect": a.connect(given)
        except OSError as problem:
            print(attempt, errno.errorcode[problem.errno])
"""
    with socket.socket(1, socket.SOCK_DGRAM) as victim:
        victim.bind(str(tmp_path / "v"))
        printed = run(program, limits(), str(tmp_path / "v")).printed.decode().split()
        victim.setblocking(False)
        with pytest.raises(BlockingIOError):
            victim.recv(1)
    stream = ["sendto", "EISCONN", "sendmsg", "EISCONN", "connect", "EPERM"]
    assert printed == [*stream, "sendto", "EPIPE", "sendmsg", "EPIPE", "connect", "EPERM"]


def test_packages_of_this_python_can_be_imported() -> None:
    pytest.importorskip("sympy")
    skip_without("landlock")
    program = "import sympy; x = sympy.Symbol('x'); print(sympy.integrate(2 * x))"
    assert run(program, limits(cpu_s=30)).printed == b"x**2\n"


@pytest.mark.parametrize("mechanism", ["landlock", "bubblewrap"])
def test_a_program_behind_a_link_of_the_system_runs(mechanism: Any) -> None:
    skip_without(mechanism)
    if not os.path.realpath("/usr/bin/awk").startswith("/usr/") or not os.path.islink("/etc/alternatives/awk"):
        pytest.skip("awk is no link into /etc/alternatives here")
    program = "import subprocess; subprocess.run(['awk', 'BEGIN { print 6 * 7 }'], check=True)"
    assert run(program, LIMITS, mechanism=mechanism).printed == b"42\n"


BOMB = """
import os, time
started = 0
try:
    while started < 2000:
        if not os.fork():
            os.closerange(1, 3)  # who reads them does not wait for this process
            time.sleep(600)
            os._exit(0)
        started += 1
except OSError:
    print(started)
"""


@pytest.mark.parametrize(("mechanism", "landlock_abi"), MODES, ids=NAMES)
@pytest.mark.parametrize("who", ["root", "ordinary"])
def test_processes_are_few_and_end_with_it(who: str, mechanism: str, landlock_abi: int | None) -> None:
    skip_without(mechanism)
    ended = run_as(who, BOMB, limits(processes=4), None, mechanism, landlock_abi)
    # Of an ordinary user Landlock's processes are counted with all others. There is room for those, and one that ends
    # while the program runs makes more; without a limit the program prints nothing.
    is_counted_with_others = who == "ordinary" and mechanism == "landlock"
    assert 1 <= int(ended.printed) <= (1999 if is_counted_with_others else 4)
    deadline = time.monotonic() + 60
    while (left := _running()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


def _running() -> list[str]:
    """The processes of the sandbox that are there."""
    lines = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(place.read_text())
        except OSError:
            continue
    return [line for line in lines if "_restrict_files" in line]


@pytest.mark.parametrize("mechanism", ["landlock", "bubblewrap"])
def test_without_processes_there_are_threads_alone(mechanism: Any) -> None:
    skip_without(mechanism)
    program = "import os, threading; t = threading.Thread(target=print, args=('t',)); t.start(); t.join(); os.fork()"
    printed = run(program, limits(processes=0), mechanism=mechanism).printed.decode()
    assert printed.startswith("t\n")
    assert "PermissionError" in printed


LIMITED = {
    "memory": ("x = bytearray(2 << 30)", "MemoryError"),
    "a file": ("f = open('f', 'wb')\nwhile True: f.write(bytes(1 << 20)); f.flush()", "OSError"),
    "open files": ("x = [open('f', 'w') for _ in range(100)]", "OSError"),
}


@pytest.mark.parametrize("mechanism", ["landlock", "bubblewrap"])
@pytest.mark.parametrize("what", LIMITED)
def test_sizes_are_limited(what: str, mechanism: Any) -> None:
    skip_without(mechanism)
    program, error = LIMITED[what]
    ended = run(program, limits(cpu_s=10), mechanism=mechanism)
    assert ended.code != 0
    assert error in ended.printed.decode()


@pytest.mark.parametrize("mechanism", ["landlock", "bubblewrap"])
def test_time_is_limited(mechanism: Any) -> None:
    """That of computing is in test_how_it_ended_is_told."""
    skip_without(mechanism)
    for wall_s in (2, 20, 200):
        waited = run("import time\nprint(1, flush=True)\ntime.sleep(600)", Limits(wall_s=wall_s), mechanism=mechanism)
        assert not waited.in_time
        if waited.printed:  # else it had not begun by then
            break
    assert waited.printed == b"1\n"


@pytest.mark.parametrize(
    "program",
    [
        "import os\nfor i in range(3000): os.mkdir('d'); os.chdir('d')",
        "import os\nos.mkdir('d'); open('d/f', 'w').close(); os.umask(0o777); os.mkdir('closed')",
        "import os\nos.symlink('/', 'way'); open(b'\\xff', 'w').close()",
    ],
    ids=["deep folders", "closed folders", "links and strange names"],
)
def test_its_folder_is_gone_afterwards(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without("landlock")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run(program, limits()).code == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_its_folder_is_removed_within_the_time_or_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without("landlock")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sandbox, "_LEAST_REMOVAL_S", 0)
    # A busy disk takes a minute to remove twenty thousand.
    run("import os\nfor n in range(500): os.mkdir(str(n))\nimport time\ntime.sleep(600)", Limits(wall_s=3, cpu_s=30))
    assert list(tmp_path.iterdir()), "removing them takes longer than this call waits"
    until = time.monotonic() + 120
    while list(tmp_path.iterdir()) and time.monotonic() < until:
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []


def test_of_much_output_the_beginning_is_kept() -> None:
    skip_without("landlock")
    ended = run("print('x' * 10_000_000)", limits())
    assert (ended.printed, ended.is_cut, ended.code) == (b"x" * 2000, True, 0)


def test_a_program_that_cannot_be_confined_does_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    skip_without("landlock")
    wrong = b"\xff" * 8
    monkeypatch.setattr(sandbox, "seccomp_filter", lambda *_, **__: wrong)
    with pytest.raises(NoSandbox, match=r"landlock does not confine a program: .*prctl 22"):
        run(f"open({str(tmp_path / 'x')!r}, 'w')", limits())
    assert not (tmp_path / "x").exists()


def test_a_machine_without_landlock_takes_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without("bubblewrap")
    monkeypatch.setattr(sandbox, "abi", lambda: 0)
    monkeypatch.setattr(sandbox, "available", sandbox.available.__wrapped__)
    assert sandbox.choose_mechanism() == "bubblewrap"
    assert run("print(7)", limits()).printed == b"7\n"


def test_a_machine_with_neither_runs_nothing_unless_the_recipe_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "abi", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(sandbox, "available", sandbox.available.__wrapped__)
    with pytest.raises(NoSandbox, match=r"neither Landlock nor a working bubblewrap.*launch\.sandbox: none"):
        run("print(7)", limits())
    monkeypatch.setenv(SANDBOX_VARIABLE, "none")
    assert run("print(7)", limits()).printed == b"7\n"


def test_a_bubblewrap_that_may_make_no_namespaces_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not sandbox._holds("bubblewrap")


def test_this_python() -> None:
    """Where Python lies in a folder that only its user can enter, a program imports from it all the same."""
    skip_without("landlock")
    ended = run("import sys, sqlite3, ctypes; print(sys.prefix)", limits())
    assert ended.printed.decode().strip() == sys.prefix
