"""The reward beside the catalogue's code recipes: model-written code has limits, and does not last."""

import importlib.util
import os
from pathlib import Path

import pytest
from kept_recipes import ROOT

pytestmark = pytest.mark.processes
FILE = ROOT / "recipes/catalogue/bases/code_tests.py"
_SPEC = importlib.util.spec_from_file_location("code_tests", FILE)
assert _SPEC is not None and _SPEC.loader is not None
module = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(module)
RIGHT = "def add(a, b):\n    return a + b\n"
TESTS = ["assert add(1, 2) == 3", "assert add(0, 0) == 0"]


def judged(*codes: object) -> list[float | None]:
    many = len(codes)
    found: list[float | None] = module.code_tests(list(codes), test_list=[TESTS] * many, test_setup_code=[""] * many)
    return found


def test_the_share_of_the_tests_that_pass() -> None:
    fenced = [{"role": "assistant", "content": f"So:\n```python\n{RIGHT}```\nDone."}]
    wrong = RIGHT.replace("+", "*")
    assert judged(RIGHT, fenced, wrong, "def add(", "", "raise SystemExit(0)") == [1.0, 1.0, 0.5, 0.0, 0.0, 0.0]


def test_a_row_without_tests_has_no_reward_and_a_setup_is_run_first() -> None:
    asked = {"test_list": [[], ["assert SEVEN == 7"]], "test_setup_code": [None, "SEVEN = 7"]}
    assert module.code_tests(["", ""], **asked) == [None, 1.0]


def test_the_code_is_a_module_that_libraries_find() -> None:
    typed = "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n"
    pickled = "import pickle\nclass A: pass\nassert type(pickle.loads(pickle.dumps(A()))) is A\n"
    threads = "from concurrent.futures import ThreadPoolExecutor as P\nassert sum(P(32).map(int, [1] * 99)) == 99\n"
    assert judged(*(each + RIGHT for each in (typed, pickled, threads))) == [1.0] * 3


def test_a_fence_is_found_however_it_names_python() -> None:
    fences = "```Python\n", "```python3\n", "``` python \r\n", "```\n"
    assert judged(*(f"So:\n{fence}{RIGHT}```" for fence in fences)) == [1.0] * len(fences)


def test_files_of_others_stay_and_no_process_is_started(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    tried = (
        f"import os\nos.remove({str(kept)!r})\n",
        f"open({str(kept)!r}, 'w')\n",
        f"import pathlib\npathlib.Path({str(kept)!r}).rename({str(kept)!r} + '2')\n",
        f"import shutil\nshutil.rmtree({str(tmp_path)!r})\n",
        "import os\nos.fork()\n",
        "import os\nassert os.system('true') == 0\n",
        f"import sqlite3\nsqlite3.connect({str(tmp_path / 'new.db')!r}).execute('create table t(a)')\n",
        "import socket\nsocket.socket()\n",
    )
    assert judged(*(one + RIGHT for one in tried)) == [0.0] * len(tried)
    assert (kept.read_text(), os.listdir(tmp_path)) == ("mine", ["kept"])


def test_endless_huge_and_talkative_code_ends() -> None:
    endless, huge, talkative = "while True: pass\n", "x = [0] * 10**10\n", "print('x' * 10**7)\n"
    assert judged(endless + RIGHT, huge + RIGHT, talkative + RIGHT) == [0.0, 0.0, 1.0]


def test_code_that_only_waits_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WALL_SECONDS", 2)
    assert judged("import time\ntime.sleep(600)\n") == [0.0]


def test_it_sees_no_variables_and_leaves_no_file() -> None:
    before = set(os.listdir("."))
    own = "{'LC_CTYPE', 'HOME', 'USER', 'LOGNAME', 'OMP_NUM_THREADS'}"
    code = f"import os\nassert not set(os.environ) - {own}\nassert os.listdir('.') == []\n{RIGHT}"
    written = f"open('left.txt', 'w').close()\n{RIGHT}"
    assert judged(code, written) == [1.0, 1.0]
    assert set(os.listdir(".")) == before
