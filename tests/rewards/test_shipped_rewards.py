"""The shipped rewards, for plain and conversational completions."""

import re
import threading
from collections.abc import Callable

import pytest

from grpo_recipes.rewards.completion_length import completion_length
from grpo_recipes.rewards.exact_match import exact_match
from grpo_recipes.rewards.regex_match import regex_match
from grpo_recipes.rewards.tag_format import tag_format
from grpo_recipes.rewards.valid_json import valid_json

Reward = Callable[..., list[float | None]]
THINK = "<think>a</think>\n<answer>b</answer>"


def case(
    name: str, reward: Reward, text: str, value: float | None, **keywords: object
) -> object:  # one line of the table
    return pytest.param(reward, text, value, keywords, id=f"{reward.__name__}: {name}")


CASES = [
    case("same", exact_match, "42", 1.0, solution=["42"]),
    case("white space around", exact_match, " 42\n", 1.0, solution=["42 "]),
    case("number", exact_match, "42", 1.0, solution=[42]),
    case("no solution", exact_match, "None", None, solution=[None]),
    case("other", exact_match, "420", 0.0, solution=["42"]),
    case("empty", exact_match, "", 0.0, solution=["42"]),
    case("case counts", exact_match, "Paris", 0.0, solution=["paris"]),
    case("case ignored", exact_match, "Paris", 1.0, solution=["paris"], ignore_case=True),
    case("found inside", regex_match, "is 42.", 1.0, pattern=r"\d+"),
    case("not the whole", regex_match, "is 42.", 0.0, pattern=r"\d+", full=True),
    case("the whole", regex_match, "42", 1.0, pattern=r"\d+", full=True),
    case("not found", regex_match, "none", 0.0, pattern=r"\d+"),
    case("in order", tag_format, THINK, 1.0),
    case("white space around", tag_format, f"\n{THINK}\n", 1.0),
    case("one tag", tag_format, "<a>x</a>", 1.0, tags=["a"]),
    case("text before", tag_format, f"Well: {THINK}", 0.0),
    case("wrong order", tag_format, "<answer>b</answer><think>a</think>", 0.0),
    case("missing end", tag_format, "<think>a</think><answer>b", 0.0),
    case("twice", tag_format, THINK + THINK, 0.0),
    case("nested", tag_format, "<think>a</think><answer><answer>b</answer>", 0.0),
    case("empty", tag_format, "", 0.0),
    case("short", completion_length, "a" * 10, 1.0, target=10, max_characters=20),
    case("half way", completion_length, "a" * 15, 0.5, target=10, max_characters=20),
    case("at the end", completion_length, "a" * 20, 0.0, target=10, max_characters=20),
    case("beyond the end", completion_length, "a" * 99, 0.0, target=10, max_characters=20),
    case("empty", completion_length, "", 1.0),
    case("object", valid_json, ' {"a": 1} ', 1.0),
    case("fenced", valid_json, 'Here:\n```json\n{"a": 1}\n```\nDone.', 1.0),
    case("wanted keys", valid_json, '{"a": 1, "b": null}', 1.0, required_keys=["a", "b"]),
    case("missing key", valid_json, '{"a": 1}', 0.0, required_keys=["a", "b"]),
    case("a list has no keys", valid_json, '["a"]', 0.0, required_keys=["a"]),
    case("text", valid_json, "a: 1", 0.0),
    case("NaN is no JSON", valid_json, "[NaN]", 0.0),
    case("too deep", valid_json, "[" * 100_000, 0.0),
    case("too long a number", valid_json, "1" * 10_000, 0.0),
    case("empty", valid_json, "", 0.0),
]


@pytest.mark.parametrize(("reward", "text", "value", "keywords"), CASES)
def test_plain_and_conversational_completions_get_the_same(
    reward: Reward, text: str, value: float | None, keywords: dict[str, object]
) -> None:
    spoken = [{"role": "assistant", "content": text}]
    for completion in (text, spoken):
        found = reward([completion], prompts=["p"], completion_ids=[[1]], trainer_state=None, **keywords)
        assert found == [value]


def test_a_column_of_another_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        exact_match(["1", "2"], solution=["1"])


def test_a_length_without_a_slope_is_an_error() -> None:
    with pytest.raises(ValueError, match="max_characters 10 is not greater than target 10"):
        completion_length(["a"], target=10, max_characters=10)


def test_a_pattern_that_cannot_be_compiled_is_an_error() -> None:
    with pytest.raises(re.error):
        regex_match(["a"], pattern="(")


ACCURACY = [
    pytest.param("the answer is 42.", "42", 1.0, id="number at the end"),
    pytest.param(r"so \boxed{\frac{1}{2}}, not 7", "1/2", 1.0, id="boxed fraction"),
    pytest.param("<think>7</think><answer>42</answer>", "42", 1.0, id="answer tag"),
    pytest.param("<answer>7</answer> <answer>42</answer>", "42", 1.0, id="last answer tag"),
    pytest.param("<answer> x+1 </answer>", "1+x", 1.0, id="expression in a tag"),
    pytest.param("it is 1,234", "1234", 1.0, id="thousands"),
    pytest.param("#### 72", "72", 1.0, id="gsm8k"),
    pytest.param("$1+x$", "x+1", 1.0, id="expression"),
    pytest.param("<answer>5 km</answer>", "5", 1.0, id="unit in a tag"),
    pytest.param("<answer>The result is 42</answer>", "42", 1.0, id="sentence in a tag"),
    pytest.param(r"\boxed{x^2}", "x^2", 1.0, id="power"),
    pytest.param(r"\boxed{\frac{3}{4}}", r"\frac{3}{4}", 1.0, id="solution is LaTeX"),
    pytest.param("1+1", "2", 1.0, id="unevaluated"),
    pytest.param("42", 42, 1.0, id="solution is a number"),
    pytest.param("the answer is 43", "42", 0.0, id="other number"),
    pytest.param("1", "1+x", 0.0, id="part of the solution"),
    pytest.param("-3", "3", 0.0, id="sign"),
    pytest.param("<answer>7</answer> 42", "42", 0.0, id="right number outside the tag"),
    pytest.param("", "42", 0.0, id="empty"),
    pytest.param("no idea", "42", 0.0, id="words"),
    pytest.param(r"\boxed{\frac{1}{", "42", 0.0, id="torn LaTeX"),
    pytest.param("9**9**9**9", "42", 0.0, id="tower of powers"),
    pytest.param("2^100000000", "42", 0.0, id="huge exponent"),
    pytest.param(r"9^{9^{9^9}}", "42", 0.0, id="tower in LaTeX"),
    pytest.param("(" * 5000, "42", 0.0, id="parentheses"),
    pytest.param("silent", "listen", None, id="solution is a word"),
    pytest.param("42", "", None, id="solution is empty"),
    pytest.param("42", None, None, id="solution is null"),
]


@pytest.mark.stack
@pytest.mark.parametrize(("text", "solution", "value"), ACCURACY)
def test_accuracy_judges_and_never_raises(text: str, solution: object, value: float | None) -> None:
    from grpo_recipes.rewards.accuracy import accuracy

    assert accuracy([text, [{"role": "assistant", "content": text}]], solution=[solution] * 2) == [value] * 2


@pytest.mark.stack
def test_accuracy_judges_in_a_thread_where_signals_cannot_be_set() -> None:
    from grpo_recipes.rewards.accuracy import accuracy

    found: list[list[float | None]] = []
    texts = ["42", "9**9**9**9", "7"]
    thread = threading.Thread(target=lambda: found.append(accuracy(texts, solution=["42"] * 3)), daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert found == [[1.0, 0.0, 0.0]]
