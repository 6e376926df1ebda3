"""RWD002: a reward whose column is not in the rows raises after the first generation."""

import ast

import pytest
from library import Library

from grpo_recipes.facts.reward_keywords import columns_no_reward_gets, not_passed
from grpo_recipes.user_files.functions.reward_body import keywords_read

pytestmark = pytest.mark.stack

SOURCE = "def reward(completions, solution, **kwargs):\n    return [float(len(text)) for text in completions]"


def test_with_the_column_it_trains(library: Library) -> None:
    rows = [{"prompt": f"{n}+1=", "solution": "2"} for n in range(8)]
    assert library.call("train", arguments={}, rewards=SOURCE, rows=rows).raised == ""


def test_without_the_column_it_raises(library: Library) -> None:
    answer = library.call("train", arguments={}, rewards=SOURCE)
    assert (answer.stage, answer.raised) == ("train", "TypeError")
    assert "missing 1 required positional argument: 'solution'" in answer.text


@pytest.mark.parametrize("name", columns_no_reward_gets())
def test_a_column_that_trl_keeps_back_never_arrives(library: Library, name: str) -> None:
    source = f"def reward(completions, {name}, **kwargs):\n    return [1.0 for _ in completions]"
    answer = library.call("train", arguments={}, rewards=source, rows=[{"prompt": "1+1=", name: "2"}] * 8)
    assert (answer.stage, answer.raised) == ("train", "TypeError")
    assert f"missing 1 required positional argument: '{name}'" in answer.text


def test_this_release_passes_all_that_is_listed(library: Library) -> None:
    keywords = ", ".join(not_passed("0.14.0"))
    source = f"def reward(prompts, completions, {keywords}, **kwargs):\n    return [1.0 for _ in completions]"
    assert library.call("train", arguments={}, rewards=source).raised == ""
    assert len(not_passed("0.14.0")) == 4
    assert not_passed("1.16.0") == {}


@pytest.mark.parametrize("read", ["kwargs['gold']", "kwargs.pop('gold')"])
def test_a_column_that_kwargs_lack_raises(library: Library, read: str) -> None:
    source = f"def reward(completions, **kwargs):\n    return [float(g in c) for c, g in zip(completions, {read})]"
    assert keywords_read(ast.parse(source).body[0]) == ("gold",)
    answer = library.call("train", arguments={}, rewards=source)
    assert (answer.stage, answer.raised) == ("train", "KeyError")
    rows = [{"prompt": f"{n}+1=", "gold": "2"} for n in range(8)]
    assert library.call("train", arguments={}, rewards=source, rows=rows).raised == ""
