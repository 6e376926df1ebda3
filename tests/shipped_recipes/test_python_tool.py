"""The tool of the Qwen3 Python recipe: code of the model's has limits, is told what it printed, and does not last."""

import importlib.util
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from kept_recipes import ROOT

from grpo_recipes.contract.plan_sections import SANDBOX_VARIABLE
from grpo_recipes.contract.sandbox import run as sandbox

pytestmark = pytest.mark.processes
FILE = ROOT / "recipes/qwen3_python_tool/python_tool.py"
_SPEC = importlib.util.spec_from_file_location("python_tool", FILE)
assert _SPEC is not None and _SPEC.loader is not None
module = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(module)

DIVIDED = "ZeroDivisionError: division by zero (line 3)"
TOLD = [
    ("print(sum(range(10)))", "45"),
    ("print('é'); print(2)", "é\n2"),
    ("x = 1", "[nothing was printed]"),
    ("print(1)\nraise SystemExit(3)", "1"),
    ("print(1)\n\nprint(1 / 0)", "1\nZeroDivisionError: division by zero (line 3)"),
    ("def f():\n    raise ValueError\nf()", "ValueError (line 2)"),
    ("def f(", "SyntaxError: '(' was never closed (code, line 1)"),
    (
        "print(open('/no/such/file').read())",
        "FileNotFoundError: [Errno 2] No such file or directory: '/no/such/file' (line 1)",
    ),
    ("\udc80", "UnicodeEncodeError"),
    ("import os\nprint(1, flush=True)\nos._exit(1)", "1\n[ended with exit code 1]"),
    ("import ctypes\nctypes.string_at(0)", "[ended by signal 11: Segmentation fault]"),
    ("import os\nos.kill(0, 9)", "[ended by signal 9: Killed]"),
    ("import os\nos.kill(0, 34)", "[ended by signal 34: Real-time signal 0]"),
    ("import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)", "True"),
    ("def filter(*_): pass\nprint(__name__, 'given' in globals())\n1 / 0", "__main__ False\n" + DIVIDED),
]


@pytest.fixture(autouse=True)
def _not_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine reaches the limit of 8 seconds before the program has begun."""
    monkeypatch.setattr(module, "LIMITS", replace(module.LIMITS, wall_s=300))


def run(code: str) -> str:
    """What the model is told of its code."""
    said: str = module.run_python(code)
    return said


@pytest.mark.parametrize(("code", "told"), TOLD)
def test_what_is_printed_is_told(code: str, told: str) -> None:
    assert run(code) == told or (told in run(code) and told.isidentifier())


def test_endless_code_and_code_that_waits_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("print(7)\nwhile True: pass") == "7\n[ended after 2 seconds of computing]"
    for wall_s in (1, 10, 100):
        monkeypatch.setattr(module, "LIMITS", replace(module.LIMITS, wall_s=wall_s))
        told = run("import time\nprint(7, flush=True)\ntime.sleep(600)")
        if told.startswith("7"):  # else it had not begun by then
            break
    assert told == f"7\n[ended after {wall_s} seconds]"


def test_a_test_that_fails_is_told() -> None:
    case = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): self.assertEqual(1, 2)\n"
    for ended in ("unittest.main(exit=False)", "unittest.main()"):
        said = run(case + ended)
        assert "Ran 1 test" in said
        assert said.endswith("FAILED (failures=1)")


def test_memory_has_an_end() -> None:
    assert run("x = [0] * 10**9") == "MemoryError (line 1)"
    assert run("x = []\nwhile True: x.append('y' * 10**6)").startswith("MemoryError")


def test_of_much_output_the_beginning_is_told_and_nothing_is_kept() -> None:
    begun = time.monotonic()
    assert run("print('x' * 10_000_000)\nprint('end')") == "x" * 2000 + "\n[cut after 2000 characters]"
    assert time.monotonic() - begun < module.LIMITS.wall_s


def test_files_of_others_stay_and_it_leaves_none(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    for code in (
        f"import os; os.remove({str(kept)!r})",
        f"open({str(kept)!r}, 'w')",
        f"import readline; readline.write_history_file({str(kept)!r})",
        f"import sqlite3; sqlite3.connect({str(tmp_path / 'new.db')!r}).execute('create table t(a)')",
        f"import dbm.ndbm; dbm.ndbm.open({str(tmp_path / 'new')!r}, 'n')",
    ):
        refused = (
            r"PermissionError|OperationalError: unable to open|error: |ModuleNotFoundError: No module named '_dbm'"
        )
        assert re.match(refused, run(code)), run(code)
    assert (kept.read_text(), os.listdir(tmp_path)) == ("mine", ["kept"])
    before = set(os.listdir("."))
    assert run("open('own.txt', 'w').write('a')\nprint(open('own.txt').read())") == "a"
    assert set(os.listdir(".")) == before


def test_it_sees_no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    own = "'LC_CTYPE', 'HOME', 'USER', 'LOGNAME', 'OMP_NUM_THREADS'"
    assert run(f"import os\nprint(set(os.environ) - {{{own}}})") == "set()"


def test_the_network_is_refused_and_a_process_is_not() -> None:
    assert run("import socket; socket.create_connection(('127.0.0.1', 1))").startswith("PermissionError")
    assert run("import subprocess; print(subprocess.run(['echo', '7'], capture_output=True).stdout)") == "b'7\\n'"


def test_without_a_sandbox_the_tool_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "available", lambda: None)
    with pytest.raises(sandbox.NoSandbox, match="no sandbox for code that the model writes"):
        _SPEC.loader.exec_module(module)
    monkeypatch.setenv(SANDBOX_VARIABLE, "none")
    _SPEC.loader.exec_module(module)
    assert run("print(7)") == "7"
