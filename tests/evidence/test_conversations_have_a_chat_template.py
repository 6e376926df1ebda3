"""TOK002: without a chat template messages raise at the first batch, and plain prompts train."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


def test_messages_raise_after_loading(library: Library) -> None:
    rows = [{"prompt": [{"role": "user", "content": "1+1="}]}] * 8
    answer = library.call("in_trl.without_chat_template", rows=rows)
    assert (answer.stage, answer.raised) == ("train", "ValueError")
    assert "chat_template is not set" in answer.text


def test_plain_prompts_train(library: Library) -> None:
    assert library.call("in_trl.without_chat_template", rows=[{"prompt": "1+1="}] * 8).raised == ""
