"""DAT006: what the model is asked when messages are written as text, or with the roles of ShareGPT."""

import json
from pathlib import Path
from typing import Any

import pytest
from library import Library

from grpo_recipes.contract.prompt_shape import doubtful_prompt

pytestmark = pytest.mark.stack

MESSAGES = [{"role": "user", "content": "1+1="}]
SHOWS = "def reward(prompts, completions, **kwargs):\n    raise ValueError(repr([prompts[0], type(completions[0])]))"


@pytest.mark.parametrize("text", [json.dumps(MESSAGES), str(MESSAGES), json.dumps(MESSAGES, indent=1)])
def test_messages_written_as_text_are_one_text(library: Library, text: str) -> None:
    assert doubtful_prompt(text, None) is not None
    answer = library.call("train", arguments={}, rewards=SHOWS, rows=[{"prompt": text}] * 8)
    assert answer.text == repr([text, str])


def test_messages_are_messages(library: Library) -> None:
    assert doubtful_prompt(MESSAGES, None) is None
    answer = library.call("train", arguments={}, rewards=SHOWS, rows=[{"prompt": MESSAGES}] * 8)
    assert answer.text == repr([MESSAGES, list])


@pytest.mark.parametrize("role", ["human", "gpt"])
def test_no_template_of_trl_knows_the_roles_of_share_gpt(role: str) -> None:
    import trl

    templates = [file.read_text() for file in Path(trl.__file__).parent.glob("chat_templates/*.jinja")]
    message: list[dict[str, Any]] = [{"role": role, "content": "1+1="}]
    assert len(templates) > 10
    assert [text for text in templates if doubtful_prompt(message, text) is None and f"'{role}'" in text] == []
    assert [text for text in templates if f"== '{role}'" in text or f'== "{role}"' in text] == []
