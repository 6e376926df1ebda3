"""Rows become prompts; what a row cannot fill is said with the row, the template and the columns."""

import dataclasses

import pytest
from worker_runs import planned_data

from grpo_recipes.plan import Data
from grpo_recipes.worker.stopped import Stopped
from grpo_recipes.worker.templates import row_renderer

ROW = {"question": "1+1 <b>", "answer": "so #### 2", "missing": None, "prompt": "given"}
USER = {"role": "user", "content": "1+1 <b>"}
SYSTEM = {"role": "system", "content": "Think."}


def data(**changes: object) -> Data:
    return Data(**planned_data("rows.jsonl", **{"columns": {}, **changes}))  # type: ignore[arg-type]


RENDERED = [
    pytest.param(data(), {"prompt": [USER]}, id="conversational"),
    pytest.param(data(system_prompt="Think."), {"prompt": [SYSTEM, USER]}, id="system prompt"),
    pytest.param(data(prompt_format="standard"), {"prompt": "1+1 <b>"}, id="standard"),
    pytest.param(data(prompt_format="standard", system_prompt="Think."), {"prompt": "Think.\n\n1+1 <b>"}, id="both"),
    pytest.param(data(prompt=None), {"prompt": "given"}, id="prompt of the row"),
    pytest.param(
        data(prompt=None, system_prompt="Think."), {"prompt": "Think.\n\ngiven"}, id="system before a given prompt"
    ),
    pytest.param(
        data(prompt=None, columns={"solution": "{{ answer.split('####')[-1] | trim }}"}),
        {"prompt": "given", "solution": "2"},
        id="columns",
    ),
    pytest.param(
        data(prompt=None, columns={"solution": "{% if missing is none %}none{% endif %}"}),
        {"prompt": "given", "solution": "none"},
        id="null that is asked for",
    ),
]


@pytest.mark.parametrize(("planned", "expected"), RENDERED)
def test_a_row_becomes_a_prompt_and_columns(planned: Data, expected: dict[str, object]) -> None:
    assert row_renderer(planned, "dataset")(ROW, 0) == expected


REFUSED = [
    pytest.param(data(prompt="{{ quesion }}"), "'quesion' is undefined", id="unknown column"),
    pytest.param(data(prompt="{{ question.text }}"), "has no attribute 'text'", id="unknown attribute"),
    pytest.param(data(prompt="{{ missing }}"), "an expression of it is null in this row", id="null"),
    pytest.param(data(prompt="{{ 1 / 0 }}"), "division by zero", id="arithmetic"),
    pytest.param(data(prompt="{{ ''.__class__.__mro__ }}"), "unsafe", id="sandbox"),
]


@pytest.mark.parametrize(("planned", "because"), REFUSED)
def test_a_row_that_cannot_fill_a_template_is_named(planned: Data, because: str) -> None:
    with pytest.raises(Stopped) as refused:
        row_renderer(planned, "dataset")(ROW, 2)
    lines = str(refused.value).splitlines()
    assert lines[0] == "dataset.prompt: row 3 cannot fill the template"
    assert lines[1] == f"  = template: {planned.prompt}"
    assert because in lines[2]
    assert lines[3] == "  = because: the row has the columns answer, missing, prompt, question"


def test_a_template_that_is_none_is_refused_before_any_row() -> None:
    with pytest.raises(Stopped, match=r"^evaluation\.columns\.solution: not a jinja2 template"):
        row_renderer(data(columns={"solution": "{{ answer"}), "evaluation")


def test_a_second_system_message_is_refused() -> None:
    planned = data(prompt=None, system_prompt="Think.")
    with pytest.raises(Stopped, match="row 1 has a system message already"):
        row_renderer(planned, "dataset")({"prompt": [SYSTEM, USER]}, 0)


def test_a_template_cannot_change_the_row() -> None:
    row = {"items": [1]}
    with pytest.raises(Stopped, match="unsafe"):
        row_renderer(dataclasses.replace(data(), prompt="{{ items.append(2) }}"), "dataset")(row, 0)
    assert row == {"items": [1]}
