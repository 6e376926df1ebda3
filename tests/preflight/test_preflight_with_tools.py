"""`grpo-run preflight` with tools: told of as TRL tells of them, called as a training calls them."""

import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from preflight_runs import ROOT, Answer
from support.tool_model import write_tool_model

pytestmark = pytest.mark.stack

Preflight = Callable[..., Answer]
InEnvironment = Callable[..., dict[str, Any]]
RECIPE = """
recipe: 1
name: tools
model: {{model_name_or_path: {model}}}
dataset: {{path: sums.jsonl, prompt: "{{{{ question }}}}", columns: {{solution: "{{{{ answer }}}}"}}}}
tools: [{tools}]
rewards: [{{python: mine.py:judged}}]
generation: {{max_completion_length: 64, max_tool_calling_iterations: 2{generation}}}
grpo: {{num_generations: 4}}
training: {{prompts_per_step: 4, max_steps: 2, bf16: false}}
"""
MINE = '''
import time

class Thing:
    pass

def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: One.
        b: Another.
    """
    return a + b

def fails(what: str) -> str:
    """Fails.

    Args:
        what: Anything.
    """
    raise KeyError(what)

def hangs(often: int) -> str:
    """Hangs.

    Args:
        often: Any number.
    """
    time.sleep(often * 1000)
    return "late"

def leaves(often: int) -> str:
    """Leaves.

    Args:
        often: Any number.
    """
    import os
    os._exit(4)

def thing(often: int) -> str:
    """Gives a thing.

    Args:
        often: Any number.
    """
    return Thing()

def constant(what: str, much: float) -> str:
    """Gives the same.

    Args:
        what: Anything.
        much: Any number.
    """
    return "no results"

def runs(code: str) -> str:
    """Runs code.

    Args:
        code: Python.
    """
    exec(code)
    return "done"

def holds(often: int) -> str:
    """Says what holds it.

    Args:
        often: Any number.
    """
    from grpo_recipes.contract.sandbox.run import Limits, choose_mechanism, run
    return f"{choose_mechanism()} {run('print(6 * 7)', Limits()).printed.decode()}"

def judged(completions, solution, **kwargs):
    """Half for a call that was answered, half for the right last words."""
    found = []
    for messages, right in zip(completions, solution):
        called = any(message.get("tool_calls") and messages[place + 1]["role"] == "tool"
                     for place, message in enumerate(messages))
        found.append(called / 2 + (messages[-1]["content"] == right) / 2)
    return found

def first(completions, solution, **kwargs):
    """One for the right first words."""
    return [float(messages[0]["content"] == right) for messages, right in zip(completions, solution)]
'''


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tool_model(tmp_path_factory.mktemp("models") / "tools", steps=0)


@pytest.fixture
def recipe(model: Path, tmp_path: Path, sums: Path) -> Callable[..., str]:
    """Writes a recipe with tools of mine.py, and gives its name."""

    def write(*tools: str, more: str = "", generation: str = "") -> str:
        (tmp_path / "mine.py").write_text(MINE)
        lines = ", ".join(f"{{python: 'mine.py:{tool}', timeout: 2}}" for tool in tools)
        text = RECIPE.format(model=model, tools=lines, generation=generation) + textwrap.dedent(more)
        (tmp_path / "recipe.yaml").write_text(text)
        return "recipe.yaml"

    return write


def test_what_is_shown_is_what_trl_would_give_the_model(
    preflight: Preflight, recipe: Callable[..., str], model: Path
) -> None:
    answer = preflight(recipe("add"))
    assert answer.code == 0, answer.out + answer.err
    assert "PFL" not in answer.out
    from transformers import AutoTokenizer
    from transformers.utils import get_json_schema

    names: dict[str, Any] = {}
    exec(MINE, names)
    shown = re.search(r"^tool add\n((?:  \| .*\n)+)", answer.out, re.MULTILINE)
    assert shown is not None
    assert json.loads(shown[1].replace("  | ", "")) == get_json_schema(names["add"])
    row = re.search(r"^prompt of row (\d+)\n((?:  \| .*\n)+)", answer.out, re.MULTILINE)
    assert row is not None
    question = f"{9 + int(row[1])}+{19 + int(row[1])}="
    rendered = AutoTokenizer.from_pretrained(model).apply_chat_template(
        [{"role": "user", "content": question}], tools=[names["add"]], add_generation_prompt=True, tokenize=False
    )
    assert row[2] == f"  | {rendered}\n"
    assert "<|im_start|>add<|im_end|>" in rendered, "the tool is told of"


def test_scripted_turns_are_called_and_judged(preflight: Preflight, recipe: Callable[..., str]) -> None:
    turns = """
        preflight:
          turns:
            - {tool: add, arguments: {a: 20, b: 22}}
            - {answer: "42"}
        """
    answer = preflight(recipe("add", more=turns), "--rows", "2")
    assert answer.code == 0, answer.out + answer.err
    assert "PFL059" not in answer.out
    played = re.search(r"^played on row \d+ \(preflight.turns, (\d+) tokens\)\n((?:  .*\n)+)", answer.out, re.MULTILINE)
    assert played is not None, answer.out
    lines = played[2].splitlines()
    assert re.fullmatch(r"  add\(a=20, b=22\) -> 42  \([\d.]+ m?s\)", lines[0])
    assert lines[1:] == ["  says 42", "  reward judged: 0.5"]
    assert re.search(r"^reward +weight .* with tools +time per call\njudged +1 .* 0\.5 ", answer.out, re.MULTILINE)


@pytest.mark.parametrize(
    "end", [pytest.param('- {answer: "42"}', id="other words"), pytest.param("", id="a reply", marks=pytest.mark.long)]
)
def test_a_reward_of_the_first_message_is_named_whatever_the_turns_end_with(
    preflight: Preflight, recipe: Callable[..., str], tmp_path: Path, end: str
) -> None:
    turns = f"preflight:\n  turns:\n    - {{tool: add, arguments: {{a: 20, b: 22}}}}\n    {end}\n"
    path = tmp_path / recipe("add", more=turns)
    path.write_text(path.read_text().replace("mine.py:judged", "mine.py:first"))
    said = preflight(path.name, "--rows", "2", "--json").said()
    assert said["PFL059", "rewards[0]"] == ["reward first pays right answers, but none that follows a tool call"]


def test_turns_are_made_of_the_tools_where_none_are_said(preflight: Preflight, recipe: Callable[..., str]) -> None:
    answer = preflight(recipe("add"))
    played = re.search(
        r"^played on row \d+ \(generated from the tools, \d+ tokens\)\n((?:  .*\n)+)", answer.out, re.MULTILINE
    )
    assert played is not None, answer.out
    lines = [re.sub(r"  \([\d.]+ m?s\)$", "", line) for line in played[1].splitlines()]
    assert lines[0] == "  add(a=7, b=7) -> 14"
    assert lines[2:] == ["  reward judged: 1", "  also tried", "  add(a=2, b=2) -> 4", "  add(a=31, b=31) -> 62"]


def test_each_broken_tool_is_named_with_its_fault(preflight: Preflight, recipe: Callable[..., str]) -> None:
    names = ("fails", "hangs", "leaves", "thing", "constant", "add")
    answer = preflight(recipe(*names), "--json", "--rows", "2")
    assert answer.code == 0, answer.out + answer.err
    found = {finding["key"]: finding for finding in answer.findings}
    expected = {
        "tools[0].python": ("PFL030", "note", "tool fails fails: 'example'"),
        "tools[1].python": ("PFL031", "warning", "tool hangs took longer than 2 seconds and was ended"),
        "tools[2].python": ("PFL031", "warning", "tool leaves ended its process (exit code 4)"),
        "tools[3].python": ("PFL032", "warning", "tool thing answers with an object's memory address: <"),
        "tools[4].python": ("PFL032", "note", "tool constant gives 3 different calls the same answer: 'no results'"),
    }
    for key, (rule, severity, message) in expected.items():
        assert (found[key]["rule"], found[key]["severity"]) == (rule, severity), found[key]
        assert found[key]["message"].startswith(message), found[key]
    line = next(number for number, text in enumerate(MINE.splitlines(), 1) if "raise KeyError" in text)
    assert found["tools[0].python"]["because"][0] == f"mine.py:{line}: raise KeyError(what)"
    assert {key for key in found if key.startswith("tools")} == set(expected)
    assert answer.left == []


def test_prompts_are_counted_with_what_tells_of_the_tools(preflight: Preflight, recipe: Callable[..., str]) -> None:
    answer = preflight(recipe("add", "constant", generation=", max_prompt_length: 10"), "--json")
    assert answer.code == 0, answer.out + answer.err
    found = {finding["rule"]: finding for finding in answer.findings}
    assert found["PFL006"]["message"] == "40 of 40 prompts lose their beginning"
    assert "the tools are described at the beginning" in found["PFL006"]["because"]


def test_nothing_runs_before_the_turns_of_a_recipe_are_allowed(
    preflight: Preflight, recipe: Callable[..., str], tmp_path: Path
) -> None:
    """The tool is allowed, as one that the user knows; the code that a stranger's recipe hands to it is not."""
    canary = tmp_path / "canary"
    turns = f"preflight: {{turns: [{{tool: runs, arguments: {{code: \"open({str(canary)!r}, 'w')\"}}}}]}}\n"
    name = recipe("runs", more=turns)
    answer = preflight(name, "--rows", "2")
    assert (answer.code, canary.exists()) == (2, False), answer.out + answer.err
    assert "error: this recipe's preflight.turns is not allowed yet" in answer.err
    assert f'preflight.turns runs({{"code": "open({str(canary)!r}' in answer.err
    (digest,) = re.findall(r"add --allow-code ([0-9a-f]{64});", answer.err)
    assert preflight(name, "--rows", "2", "--allow-code", digest).code == 0
    assert canary.exists()
    (tmp_path / name).write_text((tmp_path / name).read_text().replace("canary", "other"))
    assert preflight(name, "--rows", "2").code == 2
    assert not (tmp_path / "other").exists()


def test_no_text_of_the_data_is_handed_to_a_tool(
    preflight: Preflight, recipe: Callable[..., str], tmp_path: Path
) -> None:
    """A column that is named as a parameter would hand code to it that nobody looked at."""
    canary = tmp_path / "canary"
    name = recipe("runs")
    columns = f"columns: {{code: \"open({str(canary)!r}, 'w')\", solution"
    (tmp_path / name).write_text((tmp_path / name).read_text().replace("columns: {solution", columns))
    answer = preflight(name, "--rows", "2")
    assert "runs(code='example')" in answer.out, answer.out + answer.err
    assert not canary.exists()


@pytest.mark.parametrize("sandbox", ["auto", "none"])
def test_the_recipe_alone_says_that_there_is_no_sandbox(
    sandbox: str, preflight: Preflight, recipe: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable of the shell that started it says nothing."""
    monkeypatch.setenv("GRPO_RUN_SANDBOX", "none")
    name = recipe("holds", more=f"launch: {{sandbox: {sandbox}}}\n")
    if sandbox == "none":
        refused = preflight(name, "--rows", "2")
        assert (refused.code, "launch.sandbox none, which gives code" in refused.err) == (2, True), refused.err
    answer = preflight(name, "--rows", "2", "--allow-code", "here")
    expected = r"\(often=7\) -> none 42" if sandbox == "none" else r"\(often=7\) -> (landlock|bubblewrap) 42"
    assert re.search(expected, answer.out), answer.out + answer.err


def test_answers_that_do_not_fit_are_said(preflight: Preflight, recipe: Callable[..., str]) -> None:
    more = 'preflight: {turns: [{tool: constant, arguments: {what: "a", much: 1.0}}, {answer: "' + "9" * 60 + '"}]}\n'
    answer = preflight(recipe("constant", more=more), "--json", "--allow-code", "here")
    found = {finding["rule"]: finding for finding in answer.findings}
    assert re.fullmatch(
        r"the played completion has \d\d+ tokens, and completions have at most 64", found["PFL034"]["message"]
    )


def test_a_file_that_raises_is_an_error(preflight: Preflight, recipe: Callable[..., str], tmp_path: Path) -> None:
    name = recipe("add")
    (tmp_path / "mine.py").write_text(MINE + "\nraise OSError('no service')\n")
    answer = preflight(name, "--json", "--rows", "2")
    assert answer.code == 2
    found = {finding["rule"]: finding for finding in answer.findings}
    assert found["PFL029"]["message"].startswith(
        "tools cannot be loaded: tool add: mine.py cannot be loaded: OSError: no"
    )
    assert "PFL020" in found, "the reward is in the same file"


def test_a_rollout_is_said_not_to_be_tried(preflight: Preflight, recipe: Callable[..., str], tmp_path: Path) -> None:
    name = recipe(more="rollout: {python: 'mine.py:play'}\n")
    (tmp_path / name).write_text((tmp_path / name).read_text().replace("tools: []\n", ""))
    source = "\n\ndef play(prompts, trainer):\n    raise OSError('was called')\n"
    (tmp_path / "mine.py").write_text(MINE + source)
    answer = preflight(name, "--json", "--rows", "2")
    assert answer.code == 0, answer.out + answer.err
    (found,) = (finding for finding in answer.findings if finding["rule"] == "PFL035")
    assert (found["key"], found["severity"]) == ("rollout", "not-checked")
    assert found["message"] == "rollout play makes the completions, so preflight does not test them"
    assert "--smoke" in found["fix"]
    assert preflight(name, "--rows", "2", "--strict").code == 2


GAME = '''
import random


class Game:
    """Counts."""

    def __init__(self, most):
        self.most = most

    def reset(self, question, solution, **row):
        self.calls, self.secret = 0, random.random()
        if solution == "32":
            raise KeyError("board")
        return f" ({self.most})"

    def count(self, by: int) -> int:
        """Counts.

        Args:
            by: So many.
        """
        self.calls += by
        return self.calls

    def get_reward(self) -> float:
        return self.calls / 10
'''


def _in_environment(
    model: Path,
    sums: Path,
    folder: Path,
    source: str,
    calls: tuple[int, ...],
    *,
    python: Path,
    time_limit: float = 20.0,
    rows: int = 40,
    timeout: float = 10.0,
    **more: Any,
) -> dict[str, Any]:
    """What the worker answers to a plan with an environment, whose one tool is called."""
    from tool_runs import sha256_of, tool_plan

    plan = tool_plan(model, sums, **more)
    known = {
        "path": "/recipes/mine.py",
        "sha256": sha256_of(source),
        "imports": {},
        "config": {"most": 3},
        "timeout": timeout,
        "package": None,
    }
    plan["environment_class"] = {"name": "Game", "target": "mine.py:Game", **known}
    plan["scripted_turns"] = [{"tool": "count", "arguments": {"by": by}, "answer": None} for by in calls]
    (folder / "run" / "worker" / "user").mkdir(parents=True)
    (folder / "run" / "worker" / "user" / "mine.py").write_text(source)
    (folder / "run" / "plan.json").write_text(json.dumps(plan))
    options = {"rows": rows, "time_limit": time_limit, "memory_limit": None, "seed": 1, "max_steps": 2, "epochs": 1.0}
    (folder / "request.json").write_text(json.dumps({**options, "num_iterations": 1, "shuffled": True}))
    words = [str(python), "-P", str(ROOT / "grpo_recipes" / "worker" / "part.py"), "preflight.start", str(folder)]
    done = subprocess.run(
        words, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads((folder / "answer.json").read_text())
    return answer


@pytest.fixture
def in_environment(model: Path, sums: Path, warm_python: Path, monkeypatch: pytest.MonkeyPatch) -> InEnvironment:
    """As _in_environment, in a folder; plans as the tests of the worker make them can be imported."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "worker"))
    return functools.partial(_in_environment, model, sums, python=warm_python / "python")


@pytest.mark.parametrize("python", [None, pytest.param(Path(sys.executable), marks=pytest.mark.long)], ids=["", "cold"])
def test_an_environment_is_reset_for_each_row_and_played(
    python: Path | None, tmp_path: Path, sums: Path, in_environment: InEnvironment
) -> None:
    """cold: by the Python of a user, which has imported nothing."""
    answer = in_environment(tmp_path, GAME, (1, 4), **({} if python is None else {"python": python}))
    failed, varying = (fault for fault in answer["faults"] if fault["id"] == "PFL033")
    assert failed["message"] == "environment Game cannot be reset for row 2: KeyError: 'board'"
    assert failed["because"] == ['mine.py:14: raise KeyError("board")', "1 of 40 rows: 2"]
    assert varying["message"].startswith("environment Game: secret differs after resets with the same row: 0.")
    assert [one["name"] for one in answer["shown"]["tools"]] == ["count"]
    question = json.loads(sums.read_text().splitlines()[0])["question"]
    assert answer["shown"]["examples"][0]["prompt"].endswith(f"{question} (3)<|im_end|><|im_start|>")
    played = answer["shown"]["played"]
    assert [(call["arguments"], call["answer"], call["turn"]) for call in played["calls"]] == [
        ({"by": 1}, "1", True),
        ({"by": 4}, "5", True),
    ]
    assert played["answer"] is None, "the completion ends with the reply"
    assert any(re.fullmatch(r"Game, reset for 40 rows, \S+ ms each", text) for _, text in answer["shown"]["lines"])
    assert played["rewards"]["Game"] == 0.5
    assert "even" in played["rewards"]


def test_a_reset_that_forgets_what_turns_changed_is_named(tmp_path: Path, in_environment: InEnvironment) -> None:
    source = GAME.replace("self.most = most", "self.most, self.calls = most, 0").replace(
        "self.calls, self.secret = 0, random.random()", "self.secret = 1"
    )
    answer = in_environment(tmp_path, source, (1, 4), rows=1)
    assert [fault["message"] for fault in answer["faults"] if fault["id"] == "PFL033"] == [
        "environment Game: after a reset, get_reward is 0.5 where turns were played before, and 0.0 in a new object"
    ]


@pytest.mark.parametrize(
    "weights", [pytest.param([], id="none"), pytest.param([0.0], id="measured", marks=pytest.mark.long)]
)
def test_an_environment_that_judges_itself_needs_no_other_reward(
    weights: list[float], tmp_path: Path, in_environment: InEnvironment
) -> None:
    from worker_runs import planned_reward

    rewards = [planned_reward("valid_json", weight=weight) for weight in weights]
    answer = in_environment(tmp_path, GAME, (1, 4), rows=1, rewards=rewards)
    assert not [fault for fault in answer["faults"] if fault["severity"] == "error"]
    assert "PFL024" not in [fault["id"] for fault in answer["faults"] if "weight" in fault["message"]]
    assert answer["shown"]["played"]["rewards"]["Game"] == 0.5


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        pytest.param('f"game {solution}"', set(), id="each-another-text"),
        pytest.param('"a game"', set(), id="the-same-text", marks=pytest.mark.long),
        pytest.param("None", {"PFL003"}, id="no-text"),
    ],
)
def test_an_environment_says_the_prompts_of_its_episodes(
    returned: str, found: set[str], tmp_path: Path, sums: Path, in_environment: InEnvironment
) -> None:
    from worker_runs import planned_data

    source = GAME.replace('if solution == "32":', "if False:").replace('f" ({self.most})"', returned)
    data = planned_data(sums, prompt="{{ '' }}")
    answer = in_environment(tmp_path, source, (1, 4), rows=4, data=data, rewards=[])
    assert {fault["id"] for fault in answer["faults"]} & {"PFL003", "PFL004"} == found


def test_a_weight_of_zero_is_found_beside_an_environment_that_judges_nothing(
    tmp_path: Path, in_environment: InEnvironment
) -> None:
    from worker_runs import planned_reward

    source = GAME.replace("get_reward", "_get_reward")
    rewards = [planned_reward("valid_json", weight=0.0)]
    answer = in_environment(tmp_path, source, (1,), rows=1, rewards=rewards)
    assert "the weight of every reward is 0" in [fault["message"] for fault in answer["faults"]]


def test_prompts_are_counted_with_what_the_environment_adds(tmp_path: Path, in_environment: InEnvironment) -> None:
    """The model takes 256 tokens, and every other row has a board of 200."""
    source = GAME.replace('return f" ({self.most})"', 'return "9" * 200 if int(solution) % 4 else "9"')
    found = {}
    for rows in (40, 4):
        answer = in_environment(tmp_path / str(rows), source, (1,), rows=rows)
        assert re.match(r"\d\d to 2\d\d tokens, ", dict(answer["shown"]["lines"])["prompts"])
        (message,) = (fault["message"] for fault in answer["faults"] if fault["id"] == "PFL006")
        assert message.endswith(
            " of 40 prompts and their completions are longer than the model's context of 256 tokens"
        )
        found[rows] = int(message.split()[0])
    assert found[40] == 21, "20 boards, and the row whose reset fails"
    assert 36 <= found[4] < 40, "rows that were not tried may have the board"


SLEEPS = GAME.replace("self.calls += by", "__import__('time').sleep(by)")


def test_a_method_that_hangs_is_ended_and_named(tmp_path: Path, in_environment: InEnvironment) -> None:
    """As in a training, where the model is told."""
    from worker_runs import planned_reward

    source = SLEEPS + "\n\ndef reads(environments, **kwargs):\n    return [each.calls for each in environments]\n"
    known = {"kind": "python", "name": "reads", "path": "/recipes/mine.py", "imports": {}}
    digest = hashlib.sha256(source.encode()).hexdigest()
    reward = planned_reward("mine.py:reads", **known, sha256=digest)
    answer = in_environment(tmp_path, source, (0, 1000), timeout=1.0, rewards=[reward])
    found = {fault["id"]: fault for fault in answer["faults"]}
    assert (found["PFL031"]["severity"], found["PFL031"]["message"]) == (
        "warning",
        "tool count took longer than 1 seconds and was ended",
    )
    number, line = next((number, text) for number, text in enumerate(source.splitlines(), 1) if "sleep" in text)
    assert found["PFL031"]["because"] == [f"mine.py:{number}: {line.strip()}", "it was called as count(by=1000)"]
    assert "PFL030" not in found
    assert [call["failed"] for call in answer["shown"]["played"]["calls"]] == [False, True]
    assert found["PFL020"]["severity"] == "not-checked"
    assert found["PFL020"]["message"] == "reward reads uses environments, so preflight does not test it"


def test_a_method_that_nothing_ends_is_ended_from_outside(tmp_path: Path, in_environment: InEnvironment) -> None:
    """As a library that lets no signal through; a training would hang there."""
    deaf = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})\n" + SLEEPS
    answer = in_environment(tmp_path, deaf, (1000,), timeout=1.0, time_limit=2.0)
    found = {fault["id"]: fault for fault in answer["faults"]}
    assert (found["PFL031"]["severity"], found["PFL031"]["message"]) == (
        "error",
        "tool count did not return within 6 s",
    )
    assert "it runs in the process that trains" in found["PFL031"]["because"]


def test_a_method_may_take_as_long_as_in_a_training(tmp_path: Path, in_environment: InEnvironment) -> None:
    answer = in_environment(tmp_path, SLEEPS, (4,), timeout=8.0, time_limit=0.5)
    assert "PFL031" not in {fault["id"] for fault in answer["faults"]}
    assert [call["failed"] for call in answer["shown"]["played"]["calls"]] == [False]
