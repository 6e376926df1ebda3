"""The tool of the Qwen3 Python recipe: code of the model's has limits, is told what it printed, and does not last."""

import importlib.util
import os
import time
from pathlib import Path

import pytest
from kept_recipes import ROOT

pytestmark = pytest.mark.processes
FILE = ROOT / "recipes/qwen3_python_tool/python_tool.py"
_SPEC = importlib.util.spec_from_file_location("python_tool", FILE)
assert _SPEC is not None and _SPEC.loader is not None
module = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(module)

TOLD = [
    ("print(sum(range(10)))", "45"),
    ("print('é'); print(2)", "é\n2"),
    ("x = 1", "[nothing was printed]"),
    ("print(1)\nraise SystemExit(3)", "1"),
    ("print(1)\n\nprint(1 / 0)", "1\nZeroDivisionError: division by zero (line 3)"),
    ("def f():\n    raise ValueError\nf()", "ValueError (line 2)"),
    ("def f(", "SyntaxError: '(' was never closed (code, line 1)"),
    ("print(open('/nowhere').read())", "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere' (line 1)"),
    ("\udc80", "UnicodeEncodeError"),
]


def run(code: str) -> str:
    """What the model is told of its code."""
    said: str = module.run_python(code)
    return said


@pytest.mark.parametrize(("code", "told"), TOLD)
def test_what_is_printed_is_told(code: str, told: str) -> None:
    assert run(code) == told or (told in run(code) and told.isidentifier())


def test_endless_code_and_code_that_waits_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("print(7)\nwhile True: pass") == "7\n[ended by its limits: 2 seconds of computing, 512 MiB]"
    monkeypatch.setattr(module, "WALL_SECONDS", 1)
    assert run("import time\nprint(7)\ntime.sleep(600)") == "7\n[ended after 1 seconds]"


def test_memory_has_an_end() -> None:
    assert run("x = [0] * 10**9") == "MemoryError (line 1)"
    assert run("x = []\nwhile True: x.append('y' * 10**6)").startswith("MemoryError")


def test_of_much_output_the_beginning_is_told_and_nothing_is_kept() -> None:
    begun = time.monotonic()
    assert run("print('x' * 10_000_000)\nprint('end')") == "x" * module.LONGEST + "\n[cut after 2000 characters]"
    assert time.monotonic() - begun < module.WALL_SECONDS


def test_files_of_others_stay_and_it_leaves_none(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    for code in (f"import os; os.remove({str(kept)!r})", f"open({str(kept)!r}, 'w')"):
        assert run(code).startswith("PermissionError")
    assert kept.read_text() == "mine"
    before = set(os.listdir("."))
    assert run("open('own.txt', 'w').write('a')\nprint(open('own.txt').read())") == "a"
    assert set(os.listdir(".")) == before


def test_it_sees_no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert run("import os\nprint(set(os.environ) - {'LC_CTYPE'})") == "set()"


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.create_connection(('127.0.0.1', 1))",
        "import os; os.fork()",
        "import subprocess; subprocess.run(['true'])",
        "import ctypes; ctypes.CDLL(None)",
    ],
)
def test_processes_and_the_network_are_refused(code: str) -> None:
    assert run(code).startswith("PermissionError: ")


def _namespaces_are_allowed() -> bool:
    """Whether the tool has namespaces here: without them a file of /proc shows the network of this process."""
    return run("import os; print(os.readlink('/proc/self/ns/net'))") != os.readlink("/proc/self/ns/net")


LASTING = """
import os, time
try:
    while True:
        if not os.fork():
            os.setsid()
            time.sleep(600)
except OSError:
    print("no more")
"""


def test_processes_do_not_outlive_a_call_where_refusal_has_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork bomb whose processes leave the group, as code that found a way around has it."""
    if not _namespaces_are_allowed():
        pytest.skip("Linux allows no namespaces here, without which such a process would stay")
    monkeypatch.setattr(module, "REFUSED", [])
    before = _sleeping()
    assert run(LASTING) == "no more"
    waited = time.monotonic() + 30
    while (left := _sleeping() - before) and time.monotonic() < waited:
        time.sleep(0.05)
    assert left == set()


def test_namespaces_have_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    if not _namespaces_are_allowed():
        pytest.skip("Linux allows no namespaces here")
    monkeypatch.setattr(module, "REFUSED", [])
    said = run("import socket\nsocket.create_connection(('127.0.0.1', 22), 1)")
    assert "Network is unreachable" in said or "Cannot assign requested address" in said


def _sleeping() -> set[str]:
    """The processes that run the tool's code."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes()
        except OSError:
            continue
        if b"asked = json.load(sys.stdin)" in words and b"unshare" in words:
            found.add(place.name)
    return found
