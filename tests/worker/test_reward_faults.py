"""A reward that answers wrongly, or raises, is named, with what it was asked about."""

import asyncio
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from worker_runs import planned_reward

from grpo_recipes.contract.plan import Reward
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.user_code.reward_call import explain_reward, note_completion, refuse_no_numbers
from grpo_recipes.worker.user_code.reward_functions import load_rewards

GIVEN = {"prompts": ["What is 1+1?", [{"role": "user", "content": "What is 2+2?"}]], "completions": ["2", "4"]}


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """The module of a test is not there for the next one."""
    yield
    sys.modules.pop("grpo_run_user_answers", None)


class Array:
    """Has numbers as NumPy's and torch's arrays have them: with a length, and no list."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: int) -> float:
        return [0.0, 1.0][place]


@pytest.mark.parametrize(
    "found",
    [
        pytest.param([1.0, 0], id="numbers"),
        pytest.param((True, None), id="a-tuple-of-true-and-none"),
        pytest.param([math.nan, math.inf], id="no-answers"),
        pytest.param(Array(), id="an-array"),
        pytest.param((value for value in (0.0, 1.0)), id="a-generator"),
    ],
)
def test_what_trl_takes_is_left_to_it(found: Any) -> None:
    refuse_no_numbers("mine", found, GIVEN)


def test_a_generator_is_not_gone_through() -> None:
    found = (value for value in (0.0, 1.0))
    refuse_no_numbers("mine", found, GIVEN)
    assert list(found) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param(["1.0", "0.5"], "a list of str", id="texts"),
        pytest.param([1.0, "0.5"], "a list of float, str", id="one-text"),
        pytest.param([1.0, "0.5"], "the answer for completion 2 is '0.5'", id="which"),
        pytest.param([1.0, "0.5"], "the prompt of completion 2 is 'What is 2+2?'", id="its-prompt"),
        pytest.param(["1.0", 0.5], "the prompt of completion 1 is 'What is 1+1?'", id="a-plain-prompt"),
        pytest.param(0.5, "a single float", id="one-number"),
        pytest.param([0.5], "1 values for 2 completions", id="too-few"),
        pytest.param("12", "str, not one number", id="a-text-of-that-length"),
        pytest.param(None, "NoneType", id="nothing"),
        pytest.param({"a": 1.0, "b": 0.0}, "dict, not one number", id="a-dict"),
        pytest.param({0.0, 1.0}, "set, not one number", id="a-set"),
        pytest.param([0.0, 10**400], "an integer that is too large for a float", id="a-huge-integer"),
        pytest.param([0.0, 10**400], "the answer for completion 2 is an integer of 1329 bits", id="which-is-huge"),
        pytest.param([0.0, -(10**9000)], "is an integer of 29898 bits", id="too-huge-to-show"),
    ],
)
def test_what_trl_cannot_take_names_the_reward_and_what_it_answered(found: Any, said: str) -> None:
    with pytest.raises(Refused) as stopped:
        refuse_no_numbers("mine", found, GIVEN)
    text = str(stopped.value)
    assert text.startswith("reward mine returned ")
    assert said in text
    assert text.splitlines()[-1].startswith("  = fix: ")


USER = """
def texts(completions, **kwargs):
    return [str(len(text)) for text in completions]

async def later(completions, **kwargs):
    return 0.5

def divides(completions, **kwargs):
    return [score(text) for text in completions]

def score(text):
    return 1 / len(text)

def reads(completions, **kwargs):
    return [float(len(open("words.txt").read())) for _ in completions]

def leaves(completions, **kwargs):
    raise SystemExit(3)

def unpacks(completions, **kwargs):
    return (1 / len(text) for text in completions)

def spoils(prompts, completions, words, options, trainer_state=None, **kwargs):
    prompts[0][0]["content"] = "changed"
    completions.reverse()
    words.sort()
    words[0].clear()
    kwargs["meta"][0]["level"] = 9
    kwargs["completion_ids"][0].append(7)
    options.pop()
    kwargs["images"][0][0].thumbnail((1, 1))
    if trainer_state is not None:
        trainer_state.max_steps = 1
    return [0.0 for _ in prompts]

async def spoils_later(**given):
    return spoils(**given)

def clears_and_raises(completions, **kwargs):
    first = completions[0]
    completions.clear()
    return [1 / len(first)]
"""


def loaded(user: Path, name: str, sha256: str, **options: Any) -> Any:
    (user / "answers.py").write_text(USER)
    keys = planned_reward(f"answers.py:{name}", kind="python", name=name, sha256=sha256, kwargs=options)
    del keys["path"]
    (function,) = load_rewards((Reward(**keys),), user, refuse_no_numbers)
    return function


def test_a_loaded_reward_is_looked_at_in_each_call(tmp_path: Path, sha256_of_text: Callable[[str], str]) -> None:
    with pytest.raises(Refused, match="reward texts returned a list of str"):
        loaded(tmp_path, "texts", sha256_of_text(USER))(prompts=["a"], completions=["b"])
    with pytest.raises(Refused, match="reward later returned a single float"):
        asyncio.run(loaded(tmp_path, "later", sha256_of_text(USER))(prompts=["a"], completions=["b"]))


@pytest.mark.parametrize("name", ["spoils", "spoils_later"])
def test_a_reward_cannot_change_what_the_others_get(
    name: str, tmp_path: Path, sha256_of_text: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    pillow, words = pytest.importorskip("PIL.Image"), ["b", "a"]

    def rows() -> dict[str, Any]:
        return {
            "prompts": [[{"role": "user", "content": "p"}], [{"role": "user", "content": "q"}]],
            "completions": ["x", "y"],
            "completion_ids": [[1], [2]],
            "words": [["b"], ["a"]],
            "meta": [{"level": 1}, {"level": 2}],
        }

    image = pillow.new("RGB", (4, 4))
    given, function = rows(), loaded(tmp_path, name, sha256_of_text(USER), options=words)
    for _ in range(2):
        found = function(**given, images=[[image], [image]])
        assert (asyncio.run(found) if inspect.isawaitable(found) else found) == [0.0, 0.0]
    assert (given, image.size, words) == (rows(), (4, 4), ["b", "a"])
    assert capsys.readouterr().out == ""


def test_a_reward_that_raises_after_a_change_is_explained(tmp_path: Path, sha256_of_text: Callable[[str], str]) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        loaded(tmp_path, "clears_and_raises", sha256_of_text(USER))(prompts=["a", "b"], completions=["", "x"])
    assert "it raises for the completion ''" in raised.value.__notes__
    with pytest.raises(ZeroDivisionError) as raised:
        loaded(tmp_path, "unpacks", sha256_of_text(USER))(prompts=["a", "b"], completions=["x", ""])
    assert "raised in reward unpacks" in raised.value.__notes__


def test_what_a_reward_raises_is_told_with_its_line_and_its_own_frames(
    tmp_path: Path, sha256_of_text: Callable[[str], str]
) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        loaded(tmp_path, "divides", sha256_of_text(USER))(prompts=["a", "b", "c"], completions=["x", "", ""])
    told = explain_reward(raised.value, tmp_path)
    assert told is not None
    message, said = told
    assert str(message) == (
        "reward divides raised ZeroDivisionError: division by zero\n  = because: answers.py:12: return 1 / len(text)"
        "\n  = because: it raises for the completion ''\n  = because: the prompt of its row is 'b'"
    )
    # The call and the comprehension, which is a frame of its own up to Python 3.11, and nothing of who called it.
    assert said.count('  File "') == (2 if sys.version_info >= (3, 12) else 3)
    assert "reward_functions.py" not in said


def test_the_completion_is_found_with_an_option_that_has_as_many_values() -> None:
    def judged(completions: list[str], words: list[str], **kwargs: Any) -> list[float]:
        return [1 / len(text) + words.index("b") for text in completions]

    problem = ZeroDivisionError("division by zero")
    note_completion(problem, judged, {"completions": ["x", ""], "prompts": ["p", "q"]}, {"words": ["a", "b"]})
    assert problem.__notes__ == ["it raises for the completion ''", "the prompt of its row is 'q'"]


def test_a_reward_that_misses_a_file_is_told_the_way(
    tmp_path: Path, sha256_of_text: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as raised:
        loaded(tmp_path, "reads", sha256_of_text(USER))(prompts=["a"], completions=["b"])
    told = explain_reward(raised.value, tmp_path)
    assert told is not None
    assert "No such file or directory: 'words.txt'" in str(told[0])
    assert str(told[0]).splitlines()[-1].endswith("pass the absolute path as an option of the reward in the recipe")


def test_a_reward_that_leaves_is_told_so(tmp_path: Path, sha256_of_text: Callable[[str], str]) -> None:
    with pytest.raises(Exception, match="raised SystemExit") as raised:
        loaded(tmp_path, "leaves", sha256_of_text(USER))(prompts=["a"], completions=[""])
    told = explain_reward(raised.value, tmp_path)
    assert told is not None
    assert str(told[0]).startswith("reward leaves raised SystemExit: 3\n  = because: answers.py:18")


def test_what_no_reward_raised_is_none_of_theirs(tmp_path: Path) -> None:
    assert explain_reward(ValueError("of the trainer"), tmp_path) is None
