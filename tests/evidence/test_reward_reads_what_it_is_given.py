"""RWD011: what TRL's call of a reward comes to that takes messages for texts, or texts for messages."""

from pathlib import Path

import pytest
from library import Library

from grpo_recipes.user_files.functions.definitions import Definition, definition
from grpo_recipes.user_files.functions.misread_elements import Misread, misread_elements

pytestmark = pytest.mark.stack

TEXTS, MESSAGES = "1+1=", [{"role": "user", "content": "1+1="}]
HELPER = "import re\ndef _score(text):\n    return float(re.search('x', text) is not None)\n"


def _misread(folder: Path, source: str, are_messages: bool) -> Misread | None:
    (folder / "r.py").write_text(source)
    reward = definition(str(folder / "r.py"), "reward")
    assert isinstance(reward, Definition)
    return misread_elements(reward.node, reward.tree, are_messages=are_messages, has_turns=False)


def _reward(value: str) -> str:
    return f"{HELPER}def reward(prompts, completions, **kwargs):\n    return [{value} for c in completions]"


@pytest.mark.parametrize(
    ("value", "raised"),
    [
        ("float(bool(re.search('x', c)))", "TypeError"),
        ("float(re.sub('x', 'y', c) == 'y')", "TypeError"),
        ("float(c.strip() == 'x')", "AttributeError"),
        ("_score(c)", "TypeError"),
        ("float(len(c['content']))", "TypeError"),
        ("float(completions[0].startswith('x'))", "AttributeError"),
    ],
)
def test_messages_that_are_read_as_text_raise(library: Library, tmp_path: Path, value: str, raised: str) -> None:
    misread = _misread(tmp_path, _reward(value), are_messages=True)
    assert misread is not None
    assert (misread.result, misread.raises) == (raised, True)
    answer = library.call("train", arguments={}, rewards=_reward(value), rows=[{"prompt": MESSAGES}] * 8)
    assert (answer.stage, answer.raised) == ("train", raised)


@pytest.mark.parametrize("value", ["float('x' in c)", "float('x' not in c)", "-abs(20.0 - len(c))"])
def test_every_completion_gets_the_same_reward(library: Library, tmp_path: Path, value: str) -> None:
    misread = _misread(tmp_path, _reward(value), are_messages=True)
    assert misread is not None
    assert not misread.raises
    assert misread.result.startswith("always ")
    answer = library.call("train", arguments={}, rewards=_reward(value), rows=[{"prompt": MESSAGES}] * 8)
    assert answer.raised == ""
    assert answer.result["logs"][0]["frac_reward_zero_std"] == 1


@pytest.mark.parametrize(
    ("value", "raised"),
    [
        ("float(len(c[0]['content']))", "TypeError"),
        ("float(len(completions[0][0]['content']))", "TypeError"),
        ("float(len(prompts[0][-1]['content']))", "TypeError"),
        ("float(len(c[-1].get('content')))", "AttributeError"),
        ("float(len(c['content']))", "TypeError"),
    ],
)
def test_texts_that_are_read_as_messages_raise(library: Library, tmp_path: Path, value: str, raised: str) -> None:
    misread = _misread(tmp_path, _reward(value), are_messages=False)
    assert misread is not None
    assert (misread.result, misread.raises) == (raised, True)
    answer = library.call("train", arguments={}, rewards=_reward(value), rows=[{"prompt": TEXTS}] * 8)
    assert (answer.stage, answer.raised) == ("train", raised)


@pytest.mark.parametrize("value", ["float(len(c[0]['content']))", "float(bool(re.search('x', c[-1]['content'])))"])
def test_messages_that_are_read_as_messages_train(library: Library, tmp_path: Path, value: str) -> None:
    assert _misread(tmp_path, _reward(value), are_messages=True) is None
    answer = library.call("train", arguments={}, rewards=_reward(value), rows=[{"prompt": MESSAGES}] * 8)
    assert answer.raised == ""
