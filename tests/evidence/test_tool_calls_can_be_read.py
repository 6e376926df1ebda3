"""TOL006: the chat templates whose tool calls TRL reads."""

import pytest
from library import Library
from support.releases import TRANSFORMERS, TRL
from tool_sources import ADD

from grpo_recipes.facts.released.requirements import templates_with_parser

pytestmark = pytest.mark.stack

# Renders calls and answers, and is none that TRL knows.
OWN = (
    "{% for message in messages %}<|im_start|>{{ message.role }}{{ message.content }}"
    "{% for call in message.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)
READ = {
    "defaults": {"role": "assistant"},
    "fields": {"content": {"close_pattern": r"<\|im_end\|>|$", "content": "text"}},
}


def test_the_table_has_the_templates_that_the_installed_trl_reads(library: Library) -> None:
    answer = library.call("in_tools.read_templates")
    assert answer.result == dict(sorted(templates_with_parser(TRL, TRANSFORMERS).items(), key=lambda item: item[1]))


def test_an_older_transformers_reads_fewer_of_them() -> None:
    older, newer = templates_with_parser(TRL, "5.12.0"), templates_with_parser(TRL, "5.13.0")
    assert {"gemma4", "lfm2_v2"} == {"gemma4", "lfm2_v2"} & (set(newer.values()) - set(older.values()))
    assert set(older.values()) < set(newer.values())


def test_another_template_is_refused_unless_its_answers_can_be_read(library: Library) -> None:
    refused = library.call("in_tools.train", tools=ADD, names=["add"], template=OWN)
    assert (refused.stage, refused.raised) == ("trainer", "ValueError")
    assert "Unrecognized chat template" in refused.text
    assert library.call("in_tools.train", tools=ADD, names=["add"], template=OWN, response_template=READ).raised == ""
