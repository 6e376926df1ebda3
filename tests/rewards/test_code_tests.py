"""The reward that runs a completion's code against tests: what passes, and what is held by the sandbox."""

import importlib
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from grpo_recipes.contract.plan_sections import SANDBOX_VARIABLE
from grpo_recipes.contract.sandbox import run as sandbox
from grpo_recipes.rewards import code_tests as module
from grpo_recipes.rewards.code_tests import code_tests

pytestmark = pytest.mark.processes
RIGHT = "def add(a, b):\n    return a + b\n"
TESTS = ["assert add(1, 2) == 3", "assert add(0, 0) == 0"]
SUM = "print(int(input()) + int(input()))\n"
CASES = [{"input": "1\n2\n", "output": "3\n"}, {"input": "20\n5", "output": "25", "type": "stdin_stdout"}]


def fenced(code: str, word: str = "python") -> str:
    return f"So:\n```{word}\n{code}```\nDone."


def judged(*codes: str, tests: object = TESTS, **options: Any) -> list[float | None]:
    return code_tests([fenced(code) for code in codes], tests=[tests] * len(codes), **options)


@pytest.fixture(autouse=True)
def _not_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine reaches the limit before a program has begun."""
    monkeypatch.setattr(module, "WALL_SECONDS", 300)


def test_the_share_of_the_statements_that_hold() -> None:
    wrong = RIGHT.replace("+", "*")
    assert judged(RIGHT, wrong, "def add(", "", "raise SystemExit(0)\n") == [1.0, 0.5, 0.0, 0.0, 0.0]
    assert judged(RIGHT, wrong, tests=json.dumps(TESTS), partial=False) == [1.0, 0.0]
    assert judged(SUM, RIGHT, tests=[*CASES, *TESTS]) == [0.5, 0.5]


def test_the_share_of_the_inputs_whose_output_is_printed() -> None:
    read = "import sys\na, b = map(int, sys.stdin.buffer.read().split())\n"
    guarded = (
        "def main():\n    a, b = map(int, open(0))\n    print(f' {a + b} ')\nif __name__ == '__main__':\n    main()\n"
    )
    codes = [
        SUM,
        f"{read}print(a + b)\n",
        guarded,
        "print(3)\n",
        f"{SUM}raise ValueError\n",
        f"{SUM}print()\nprint(1)\n",
    ]
    assert judged(*codes, tests=CASES) == [1.0, 1.0, 1.0, 0.5, 0.0, 0.0]
    lists = {"inputs": ["1\n2", "20\n5"], "outputs": ["3", 25]}
    assert judged(SUM, tests=json.dumps(lists)) == [1.0]
    lines = {"input": "1 " * 10**6, "output": "1\n" * 10**5}
    assert judged("for one in input().split()[:10**5]:\n    print(one)\n", tests=[lines]) == [1.0]


def test_the_code_is_the_last_block_of_a_wanted_language() -> None:
    twice = fenced("def add(\n") + "\nNo:\n" + fenced(RIGHT, " Python3 \r")
    shown = fenced(RIGHT) + "\nIt prints:\n```\n3\n```"
    spoken = [{"role": "assistant", "content": shown}]
    plain, unclosed = fenced(RIGHT, ""), f"```python\n{RIGHT}"
    found = code_tests([twice, shown, spoken, plain, unclosed, RIGHT], tests=[TESTS] * 6)
    assert found == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert code_tests([plain, twice], tests=[TESTS] * 2, fences=["", "py"]) == [1.0, 0.0]


def test_a_block_in_a_list_and_a_fence_in_a_docstring() -> None:
    indented = "1. So:\n   ```python\n   def add(a, b):\n       return a + b\n   ```\n2. Done."
    shown = fenced('def add(a, b):\n    """As in\n\n    ```\n    add(1, 2)\n    ```\n    """\n    return a + b\n')
    crooked = f"  ```python\n{RIGHT}```\n"
    assert code_tests([indented, shown, crooked], tests=[TESTS] * 3) == [1.0, 1.0, 1.0]


def test_a_text_that_never_closes_its_block_is_read_at_once() -> None:
    texts = ["```" + "a" * 10**5, "```" + " " * 10**5 + "\n" + " \n" * 10**5, "```a\n" * 10**5]
    assert code_tests(texts, tests=[TESTS] * 3) == [0.0] * 3  # else it would take minutes


def test_a_row_without_tests_has_no_reward() -> None:
    assert code_tests([""] * 5, tests=[[], None, " ", "[]", "null"]) == [None] * 5


NO_TESTS = [
    "assert 1",
    "5",
    '"abc"',
    [5],
    [{"input": "1"}],
    [{"input": "1", "output": "2", "testtype": "functional"}],
    [{"input": [1], "output": "2"}],
    {"inputs": ["1"], "outputs": []},
    {"inputs": "1", "outputs": "1"},
    {"inputs": ["1"], "outputs": ["1"], "fn_name": "f"},
]


@pytest.mark.parametrize("tests", NO_TESTS)
def test_what_is_no_test_is_an_error(tests: object) -> None:
    with pytest.raises(ValueError, match=r"code_tests: tests .* is not a list of statements or of \{input, output\}"):
        judged(RIGHT, tests=tests)


def test_a_list_that_a_template_wrote_as_python_gets_the_filter_that_is_missing() -> None:
    with pytest.raises(ValueError, match=r"nor its JSON, which a template writes with \{\{ \.\.\. \| tojson \}\}$"):
        judged(RIGHT, tests=str(TESTS))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cpu_seconds": 0}, "cpu_seconds must be a whole number of at least 1, not 0"),
        ({"memory_mb": "1g"}, "memory_mb must be a whole number of at least 64, not '1g'"),
        ({"fences": "python"}, "fences 'python' is not a list of words"),
        ({"partial": "false"}, "partial 'false' is neither true nor false"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"code_tests: {said}"):
        judged(RIGHT, **options)


def test_the_code_is_a_module_that_libraries_find() -> None:
    typed = "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n"
    pickled = "import pickle\nclass A: pass\nassert type(pickle.loads(pickle.dumps(A()))) is A\n"
    threads = "from concurrent.futures import ThreadPoolExecutor as P\nassert sum(P(32).map(int, [1] * 99)) == 99\n"
    assert judged(*(each + RIGHT for each in (typed, pickled, threads))) == [1.0] * 3


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


@pytest.mark.parametrize("tests", [TESTS[:1], CASES], ids=["statements", "inputs"])
def test_endless_huge_and_talkative_code_ends(tests: object) -> None:
    right = SUM if tests is CASES else RIGHT
    endless, huge, talkative = "while True: pass\n", "x = [0] * 10**10\n", "print('x' * 10**7)\n"
    small = judged(endless + right, huge + right, talkative + right, tests=tests, cpu_seconds=1)
    assert small == [0.0, 0.0, 0.0 if tests is CASES else 1.0]
    assert judged("x = bytearray(200 << 20)\n" + right, right, tests=tests, memory_mb=128) == [0.0, 1.0]


def test_a_program_forks_connects_and_writes_nothing(tmp_path: Path) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        tried = (
            "import os\nwhile True: os.fork()\n",
            f"import socket\nsocket.create_connection(('127.0.0.1', {listening.getsockname()[1]}))\n",
            f"open({str(tmp_path / 'new')!r}, 'w')\n",
        )
        assert judged(*(SUM + each for each in tried), tests=CASES) == [0.0] * len(tried)
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert os.listdir(tmp_path) == []


def test_the_first_input_that_takes_too_long_is_the_last() -> None:
    slow = "import sys\nn = int(input())\nwhile n == 2: pass\nprint(n)\n"
    tests = [{"input": str(each), "output": str(each)} for each in (1, 2, 2, 2, 2, 2, 1)]
    begun = os.times()
    assert judged(slow, tests=tests, cpu_seconds=1) == [1 / 7]
    ended = os.times()
    assert ended.children_user - begun.children_user < 3


def test_code_that_only_waits_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WALL_SECONDS", 1)
    waiting = "import time\ntime.sleep(600)\n"
    assert judged(waiting, cpu_seconds=1) == [0.0]
    assert judged(waiting, tests=CASES, cpu_seconds=1) == [0.0]


def test_completions_run_beside_each_other_on_this_process_share_of_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = len(os.sched_getaffinity(0))
    assert module._at_once() == cores
    for processes, share in ((1, cores), (cores, 1), (8 * cores, 1)):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
        assert module._at_once() == share


def test_it_sees_no_variables_and_leaves_no_file() -> None:
    before = set(os.listdir("."))
    own = "{'LC_CTYPE', 'HOME', 'USER', 'LOGNAME', 'OMP_NUM_THREADS'}"
    code = f"import os\nassert not set(os.environ) - {own}\nassert os.listdir('.') == []\n"
    written = "open('left.txt', 'w').close()\n"
    assert judged(code + RIGHT, written + RIGHT) == [1.0, 1.0]
    assert judged(code + SUM, written + SUM, tests=CASES) == [1.0, 1.0]
    assert set(os.listdir(".")) == before


def test_without_a_sandbox_the_reward_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "available", lambda: None)
    with pytest.raises(sandbox.NoSandbox, match="no sandbox for code that the model writes"):
        importlib.reload(module)
    monkeypatch.setenv(SANDBOX_VARIABLE, "none")
    importlib.reload(module)
    assert judged(RIGHT) == [1.0]
