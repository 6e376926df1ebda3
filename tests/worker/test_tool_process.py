"""Tools are called apart from the training, in bounded time and memory, and nothing of them is left behind."""

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo_recipes.contract.plan_sections import Tool
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.tools.tally import Tally
from grpo_recipes.worker.tools.tool_functions import load_tools
from grpo_recipes.worker.tools.tool_process import MOST_BYTES, ToolFailed, ToolProcess

pytestmark = pytest.mark.processes

SOURCE = '''
import asyncio, json, os, random, re, signal, subprocess, sys
from pathlib import Path
import words

calls = []

def add(a: int, b: int = 2) -> int:
    """Adds two numbers.

    Args:
        a: The first.
        b: The second.

    Returns:
        Their sum.
    """
    return a + b

def said(what: str) -> object:
    calls.append(what)
    return eval(what)

def backtracks() -> bool:
    return bool(re.match(r"(a+)+$", "a" * 40 + "b"))

def waits_with_a_child(marker: str) -> str:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    Path(marker).write_text(f"{os.getpid()} {child.pid}")
    return str(child.wait())

async def later(seconds: float) -> str:
    await asyncio.sleep(seconds)
    if seconds == 0:
        sys.exit(3)
    return words.DONE
'''
WORDS = "DONE = 'done'\n"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def planned(name: str, source: str = SOURCE, **changes: Any) -> Tool:
    keys = {"timeout": 1.0, "imports": {"words.py": _sha256(WORDS)}, **changes}
    return Tool(name, f"tools.py:{name}", "/r/tools.py", _sha256(source), **keys)


@pytest.fixture
def user(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(SOURCE)
    (tmp_path / "words.py").write_text(WORDS)
    return tmp_path


@pytest.fixture
def fresh_modules() -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("grpo_run_user_") or name == "words":
            del sys.modules[name]


@pytest.fixture
def tally() -> Tally:
    return Tally()


@pytest.fixture
def load(user: Path, tally: Tally, fresh_modules: None) -> Iterator[Callable[..., dict[str, Any]]]:
    """The loaded functions of some tools, by name."""
    made: list[ToolProcess | None] = []

    def loaded(*tools: Tool) -> dict[str, Any]:
        functions, process = load_tools(tools, user, tally)
        made.append(process)
        return {function.__name__: function for function in functions}

    yield loaded
    for one in filter(None, made):
        one.close()


def test_a_call_gives_what_the_function_gives(load: Callable[..., Any]) -> None:
    add = load(planned("add"))["add"]
    assert (add(a=1, b=3), add(a=2)) == ("4", "4")


@pytest.mark.stack
def test_the_policy_is_told_the_same_of_a_tool_as_of_the_users_own_function(load: Callable[..., Any]) -> None:
    from transformers.utils import get_json_schema

    add = load(planned("add"))["add"]
    own = sys.modules["grpo_run_user_tools"].add
    assert add is not own
    assert get_json_schema(add) == get_json_schema(own)
    assert get_json_schema(add)["function"]["parameters"]["required"] == ["a"]


WHAT_IS_TOLD = {
    "a text is itself": ("'as it is'", "as it is"),
    "a number": ("2.0", "2.0"),
    "nothing": ("None", "None"),
    "a dictionary, as TRL writes it": ("{'a': True}", "{'a': True}"),
    "a tuple": ("(1, 2)", "(1, 2)"),
    "a list that is no message": ("[1, 'b']", "[1, 'b']"),
    "what JSON cannot say": ("{1} | {1}", "{1}"),
    "an object of the user's": ("type('Own', (), {'__str__': lambda self: 'mine'})()", "mine"),
    "half of a character": ("'a\\ud800b'", "a?b"),
    "blocks of text": ("[{'type': 'text', 'text': 'x'}]", [{"type": "text", "text": "x"}]),
}


@pytest.mark.parametrize("case", WHAT_IS_TOLD)
def test_a_result_is_told_as_trl_tells_it(case: str, load: Callable[..., Any]) -> None:
    said = load(planned("said"))["said"]
    what, told = WHAT_IS_TOLD[case]
    assert said(what=what) == told


def test_a_long_result_is_cut_and_says_so(load: Callable[..., Any]) -> None:
    said = load(planned("said"))["said"]
    told = said(what="'é' * 100_000")
    assert len(told.encode()) <= MOST_BYTES
    assert told.endswith("[cut: 200000 bytes, of which the model gets 64 KiB]")
    assert said(what=f"'e' * {MOST_BYTES}") == "e" * MOST_BYTES


FAILURES = {
    "an exception has its own text": ("1 / 0", "division by zero"),
    "an exception without text has its kind": ("next(iter(()))", "StopIteration"),
    "an exception that cannot say its text": (
        "(_ for _ in ()).throw(type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})())",
        "Mute",
    ),
    "an end of the process that is asked for": ("sys.exit(3)", "SystemExit: 3"),
    "an end of the process at once": ("os._exit(3)", "said ended its process (exit code 3)"),
    "a crash": ("os.abort()", "said ended its process (SIGABRT)"),
    "more memory than there is": ("bytes(2 << 30)", "out of memory"),
    "an object that cannot be said": ("type('Own', (), {'__str__': lambda self: 1 / 0})()", "division by zero"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_text_for_the_policy_and_the_next_call_works(
    case: str, load: Callable[..., Any], tally: Tally
) -> None:
    said = load(planned("said"))["said"]
    what, text = FAILURES[case]
    with pytest.raises(ToolFailed) as raised:
        said(what=what)
    assert str(raised.value) == text
    assert said(what="1") == "1"
    assert (tally.counts()["said"].calls, tally.counts()["said"].failures) == (2, 1)


def test_wrong_arguments_are_the_functions_own_complaint(load: Callable[..., Any]) -> None:
    add = load(planned("add"))["add"]
    with pytest.raises(ToolFailed, match=r"^add\(\) got an unexpected keyword argument 'c'$"):
        add(a=1, c=2)
    with pytest.raises(ToolFailed, match="could not be called: Object of type object is not JSON serializable"):
        add(a=object())
    assert add(a=1) == "3"


def test_a_call_that_hangs_in_c_is_ended_and_the_next_one_is_answered(load: Callable[..., Any], tally: Tally) -> None:
    tools = load(planned("backtracks"), planned("add"))
    began = time.monotonic()
    with pytest.raises(ToolFailed, match=r"^backtracks took longer than 1 seconds and was ended$"):
        tools["backtracks"]()
    assert 1 <= time.monotonic() - began < 60  # a call that is not ended takes years
    assert tools["add"](a=1) == "3"
    assert tally.counts()["backtracks"].seconds >= 1


def test_one_process_answers_all_calls_and_keeps_its_state(load: Callable[..., Any]) -> None:
    tools = load(planned("said"), planned("add"))
    first = tools["said"](what="os.getpid()")
    assert (tools["said"](what="os.getpid()"), tools["said"](what="len(calls)")) == (first, "3")
    assert int(first) != os.getpid()


def test_the_process_has_nothing_heavy_and_no_rank(load: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    said = load(planned("said"))["said"]
    heavy = "sorted({'torch', 'numpy', 'transformers', 'trl', 'accelerate'} & set(sys.modules))"
    assert said(what=heavy) == "[]"
    assert said(what="os.environ.get('RANK')") == "None"
    assert said(what="os.environ['OMP_NUM_THREADS']") == "1"


@pytest.mark.parametrize("module", ["random", "numpy.random"])
def test_random_numbers_are_those_of_the_place_in_the_run(module: str, load: Callable[..., Any], tally: Tally) -> None:
    said = load(planned("said"))["said"]
    said(what=f"__import__('{module}').__name__")  # numpy is seeded once a tool has imported it

    def drawn(seed: str) -> list[str]:
        tally.begin(seed)
        return [said(what=f"sys.modules['{module}'].random()") for _ in range(2)]

    first = drawn("7 0 3")
    assert first[0] != first[1]
    assert drawn("7 0 4") != first
    assert drawn("7 0 3") == first


def test_signals_that_ask_the_run_to_stop_leave_the_tools_alone(load: Callable[..., Any]) -> None:
    said = load(planned("said"))["said"]
    process = int(said(what="os.getpid()"))
    for asking in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        os.kill(process, asking)
    assert said(what="os.getpid()") == str(process)


def test_an_asynchronous_tool_has_its_limit_too(load: Callable[..., Any], tally: Tally) -> None:
    later = load(planned("later", is_async=True))["later"]
    assert asyncio.iscoroutinefunction(later)
    assert asyncio.run(later(seconds=0.01)) == "done"
    with pytest.raises(ToolFailed, match=r"^later took longer than 1 seconds and was ended$"):
        asyncio.run(later(seconds=30.0))
    with pytest.raises(ToolFailed, match=r"^SystemExit: 3$"):
        asyncio.run(later(seconds=0))
    assert (tally.counts()["later"].calls, tally.counts()["later"].failures) == (3, 2)


def test_the_first_failure_of_a_tool_is_in_the_log(load: Callable[..., Any], capfd: pytest.CaptureFixture[str]) -> None:
    said = load(planned("said"))["said"]
    for _ in range(11):
        with pytest.raises(ToolFailed):
            said(what="1 / 0")
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith("tool said")]
    assert lines == [
        "tool said failed: division by zero (tools.py:22: return eval(what))",
        "tool said failed for the 10th time: division by zero (tools.py:22: return eval(what))",
    ]


def _is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _gone(pids: list[int], within_s: float = 5.0) -> bool:
    give_up = time.monotonic() + within_s
    while any(map(_is_there, pids)) and time.monotonic() < give_up:
        time.sleep(0.05)
    return not any(map(_is_there, pids))


def test_a_call_that_is_ended_takes_what_it_started_along(load: Callable[..., Any], tmp_path: Path) -> None:
    waits = load(planned("waits_with_a_child"))["waits_with_a_child"]
    with pytest.raises(ToolFailed, match="took longer"):
        waits(marker=str(tmp_path / "pids"))
    assert _gone([int(pid) for pid in (tmp_path / "pids").read_text().split()])


TRAINER = """
import sys
from pathlib import Path
from grpo_recipes.contract.plan_sections import Tool
from grpo_recipes.worker.tools.tally import Tally
from grpo_recipes.worker.tools.tool_functions import load_tools

user, sha256, words = Path(sys.argv[1]), *sys.argv[2:]
tool = Tool("waits_with_a_child", "tools.py:waits_with_a_child", "", sha256, {"words.py": words}, timeout=100.0)
((waits,), _) = load_tools((tool,), user, Tally())
waits(marker=str(user / "pids"))
"""


def test_a_trainer_that_is_killed_leaves_nothing_behind(user: Path) -> None:
    trainer = subprocess.Popen([sys.executable, "-c", TRAINER, str(user), _sha256(SOURCE), _sha256(WORDS)])
    marker = user / "pids"
    give_up = time.monotonic() + 30
    while not (marker.exists() and len(marker.read_text().split()) == 2) and time.monotonic() < give_up:
        time.sleep(0.05)
    pids = [int(pid) for pid in marker.read_text().split()]
    assert all(map(_is_there, pids))
    trainer.kill()
    trainer.wait()
    assert _gone(pids)


def test_a_file_that_changed_is_refused(user: Path, tally: Tally) -> None:
    (user / "words.py").write_text("DONE = 'other'\n")
    with pytest.raises(Refused, match=r"tool add: .*words\.py changed since the plan was made"):
        load_tools((planned("add"),), user, tally)


def test_a_function_that_is_not_there_is_refused(user: Path, tally: Tally, fresh_modules: None) -> None:
    with pytest.raises(Refused, match=r"tool subtract: .* has no function subtract"):
        load_tools((planned("subtract"),), user, tally)


def test_a_function_of_another_kind_than_planned_is_refused(user: Path, tally: Tally, fresh_modules: None) -> None:
    with pytest.raises(Refused, match="tool later: later is asynchronous"):
        load_tools((planned("later"),), user, tally)


def test_a_file_that_needs_more_memory_than_tools_have_is_refused(
    user: Path, tally: Tally, fresh_modules: None
) -> None:
    source = "large = bytearray(1 << 30)\ndef add(a: int) -> int:\n    return a\n"
    (user / "tools.py").write_text(source)
    with pytest.raises(Refused, match="tools add: their process could not load them") as refused:
        load_tools((planned("add", source),), user, tally)
    assert "out of memory" in str(refused.value)


RAISES = {
    "an exception": ("import os\nos.environ['NO_SUCH_KEY']\n", "KeyError: 'NO_SUCH_KEY'", "tools.py:2: os.environ["),
    "no Python": ("def add(a:\n", "SyntaxError: '(' was never closed", "tools.py:1: def add(a"),
    "an end of the process": ("import sys\nsys.exit(2)\n", "SystemExit: 2", "tools.py:2: sys.exit(2)"),
}


@pytest.mark.parametrize("case", RAISES)
def test_a_file_that_raises_is_refused_with_its_line(case: str, user: Path, tally: Tally, fresh_modules: None) -> None:
    source, problem, place = RAISES[case]
    (user / "tools.py").write_text(source)
    with pytest.raises(Refused) as refused:
        load_tools((planned("add", source),), user, tally)
    (finding,) = refused.value.findings
    assert finding.message.startswith(f"tool add: tools.py cannot be loaded: {problem}")
    assert finding.because[0].startswith(place)
    assert "grpo_run_user_tools" not in sys.modules


def test_a_file_next_to_a_module_is_not_in_the_run_folder(user: Path, tally: Tally, fresh_modules: None) -> None:
    source = "import pathlib\nTEXT = (pathlib.Path(__file__).parent / 'cities.json').read_text()\n"
    (user / "tools.py").write_text(source)
    with pytest.raises(Refused) as refused:
        load_tools((planned("add", source),), user, tally)
    (finding,) = refused.value.findings
    assert "and of no other file" in finding.because[-1]
    assert finding.fix is not None
    assert finding.fix.startswith("the absolute path")
