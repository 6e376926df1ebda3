"""Rows become prompts; what a row cannot fill is said with the row, the template and the columns."""

import dataclasses
import resource
import signal
import time

import pytest
from support.work import calls
from worker_runs import planned_data

from grpo_recipes.contract.plan import Data
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.data.templates import LONGEST_TEXT, rows_renderer

ROW = {"question": "1+1 <b>", "answer": "so #### 2", "missing": None, "prompt": "given"}
USER = {"role": "user", "content": "1+1 <b>"}
SYSTEM = {"role": "system", "content": "Think."}


def data(**changes: object) -> Data:
    return Data(**planned_data("rows.jsonl", **{"columns": {}, **changes}))  # type: ignore[arg-type]


def rendered(planned: Data, row: dict[str, object], index: int = 0) -> dict[str, object]:
    """The new columns of one row."""
    columns = rows_renderer(planned, "dataset")({name: [value] for name, value in row.items()}, [index])
    return {name: values[0] for name, values in columns.items()}


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
        data(prompt=None, columns={"solution": "{{ ' 2.7' | int }} {{ '0x1f' | int(base=16) }} {{ 'n' | float(0) }}"}),
        {"prompt": "given", "solution": "2 31 0"},
        id="numbers of texts",
    ),
    pytest.param(
        data(prompt=None, columns={"solution": "{% if missing is none %}none{% endif %}"}),
        {"prompt": "given", "solution": "none"},
        id="null that is asked for",
    ),
]


@pytest.mark.parametrize(("planned", "expected"), RENDERED)
def test_a_row_becomes_a_prompt_and_columns(planned: Data, expected: dict[str, object]) -> None:
    assert rendered(planned, ROW, 0) == expected


REFUSED = [
    pytest.param(data(prompt="{{ quesion }}"), "'quesion' is undefined", id="unknown column"),
    pytest.param(data(prompt="{{ question.text }}"), "has no attribute 'text'", id="unknown attribute"),
    pytest.param(data(prompt="{{ missing }}"), "an expression in it is null for this row", id="null"),
    pytest.param(data(prompt="{{ 1 / 0 }}"), "division by zero", id="arithmetic"),
    pytest.param(data(prompt="{{ answer | int }}"), "`int` finds no number in 'so #### 2'", id="no number"),
    pytest.param(data(prompt="{{ ''.__class__.__mro__ }}"), "unsafe", id="sandbox"),
]


@pytest.mark.parametrize(("planned", "because"), REFUSED)
def test_a_row_that_cannot_fill_a_template_is_named(planned: Data, because: str) -> None:
    with pytest.raises(Refused) as refused:
        rendered(planned, ROW, 2)
    lines = str(refused.value).splitlines()
    assert lines[0] == "dataset.prompt: row 3 cannot fill the template"
    assert lines[1] == f"  = template: {planned.prompt}"
    assert because in lines[2]
    assert lines[3] == "  = because: the row has the columns answer, missing, prompt, question"


@pytest.mark.parametrize(
    ("template", "value", "fix"),
    [
        ("{{ answer | int }}", "1,824", "{{ answer | replace(',', '') | int }}, without its separators"),
        ("{{ row.total|float }}", "-1 234.5", "{{ row.total | replace(' ', '') | float }}, without its separators"),
        ("{{ answer | int }}", "12 kg", "correct the row, or leave it out with dataset.filter; int(0) makes 0 of it"),
        ("{{ answer.split()[0] | int }}", "1,8", "correct the row, or leave it out"),
    ],
)
def test_a_text_that_is_no_number_is_mended_without_a_default(template: str, value: str, fix: str) -> None:
    with pytest.raises(Refused) as refused:
        rendered(data(prompt=template), {"answer": value, "row": {"total": value}}, 0)
    assert f"= fix: {fix}" in str(refused.value)


@pytest.mark.parametrize(("kind", "is_csv"), [("csv", True), ("json", False)])
def test_a_null_of_a_csv_file_may_be_a_word(kind: str, is_csv: bool) -> None:
    with pytest.raises(Refused) as refused:
        rendered(dataclasses.replace(data(prompt="{{ missing }}"), format=kind), ROW, 0)
    text = str(refused.value)
    assert ("words such as None, NA and null are null" in text) == is_csv
    assert "= fix: write a text for null: {{ missing or 'None' }}; or" in text


@pytest.mark.parametrize(
    ("where", "fix"),
    [
        ("dataset", "filter: {{ missing is not none }}; or a text for null"),
        ("evaluation", "leave the row out of the file, since dataset.filter keeps held-out rows; or a text for null"),
    ],
)
def test_a_null_in_a_column_is_left_out_before_it_is_a_right_answer(where: str, fix: str) -> None:
    planned = data(columns={"solution": "{{ missing }}"})
    with pytest.raises(Refused) as refused:
        rows_renderer(planned, where)({name: [value] for name, value in ROW.items()}, [0])
    assert f"= fix: {fix}" in str(refused.value)


def test_a_null_gold_answer_is_not_trained_as_a_word() -> None:
    planned = data(columns={"warm_start_answer": "<answer>{{ missing }}</answer>"})
    with pytest.raises(Refused) as refused:
        rendered(planned, ROW, 0)
    text = str(refused.value)
    assert text.startswith("warm_start.answer: row 1 cannot fill the template")
    assert "= fix: filter: {{ missing is not none }} under dataset" in text and "'None'" not in text


def test_a_template_that_is_none_is_refused_before_any_row() -> None:
    with pytest.raises(Refused, match=r"^evaluation\.columns\.solution: not a jinja2 template"):
        rows_renderer(data(columns={"solution": "{{ answer"}), "evaluation")


def test_a_second_system_message_is_refused() -> None:
    planned = data(prompt=None, system_prompt="Think.")
    with pytest.raises(Refused, match="row 1 has a system message already"):
        rendered(planned, {"prompt": [SYSTEM, USER]}, 0)


def test_a_template_cannot_change_the_row() -> None:
    row = {"items": [1]}
    with pytest.raises(Refused, match="unsafe"):
        rendered(dataclasses.replace(data(), prompt="{{ items.append(2) }}"), row, 0)
    assert row == {"items": [1]}


BOMBS = [
    pytest.param("{{ 'a' * 10 ** 10 }}", id="long text"),
    pytest.param("{{ question | center(10 ** 10) }}", id="wide text"),
    pytest.param("{{ '%9999999999d' % 1 }}", id="wide number"),
    pytest.param("{{ 7 ** (9 ** 9) }}", id="long number"),
    pytest.param("{{ (question | length) ** (9 ** 9) }}", id="long number of the row"),
    pytest.param("{% for a in range(10 ** 9) %}{% endfor %}", id="long loop"),
    pytest.param("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", id="loops in loops"),
    pytest.param(
        "{% set n = namespace(s='a') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
        id="doubled",
    ),
    pytest.param("{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}", id="macro without end"),
    pytest.param("{% for i in range(9999) %}{{ 'a' * 9999 }}{% endfor %}", id="many long texts"),
    pytest.param("{{ [question] * 10 ** 10 }}", id="long list"),
]


@pytest.mark.parametrize("template", BOMBS)
@pytest.mark.slow
def test_a_template_that_explodes_ends_soon_and_in_little_memory(template: str) -> None:
    limit = resource.getrlimit(resource.RLIMIT_AS)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(Refused, match=r"dataset\.prompt: (row 1 cannot fill|not a jinja2)"):
        rendered(data(prompt=template), ROW, 0)
    assert time.process_time() - started < 100
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB
    assert resource.getrlimit(resource.RLIMIT_AS) == limit


@pytest.mark.parametrize("template", BOMBS[4:6])
@pytest.mark.slow
def test_a_template_that_explodes_in_one_row_of_many_is_stopped_at_that_row(template: str) -> None:
    limit, timer = resource.getrlimit(resource.RLIMIT_AS), signal.getitimer(signal.ITIMER_VIRTUAL)
    started = time.process_time()
    render = rows_renderer(data(prompt=f"{{% if number == 700 %}}{template}{{% endif %}}"), "dataset")
    with pytest.raises(Refused, match=r"^dataset\.prompt: row 1701 cannot fill the template"):
        render({"number": list(range(1000)), "question": ["1+1"] * 1000}, range(1000, 2000))
    assert time.process_time() - started < 100
    assert resource.getrlimit(resource.RLIMIT_AS) == limit
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == timer


def test_many_rows_become_what_each_becomes_alone() -> None:
    planned = data(columns={"solution": "{{ answer }}"}, system_prompt="Think.")
    rows = [{**ROW, "answer": str(number)} for number in range(30)]
    columns = {name: [row[name] for row in rows] for name in ROW}
    alone = [rendered(planned, row, index) for index, row in enumerate(rows)]
    together = rows_renderer(planned, "dataset")(columns, range(30))
    assert together == {name: [row[name] for row in alone] for name in ("solution", "prompt")}


@pytest.mark.parametrize(("planned", "because"), REFUSED)
def test_one_of_many_rows_that_cannot_fill_a_template_is_named(planned: Data, because: str) -> None:
    with pytest.raises(Refused) as alone:
        rendered(planned, ROW, 41)
    template = f"{{% if number == 7 %}}{planned.prompt}{{% endif %}}"
    columns = {name: [value] * 20 for name, value in ROW.items()} | {"number": list(range(20))}
    with pytest.raises(Refused, match=r"^dataset\.prompt: row 42 cannot fill the template") as together:
        rows_renderer(dataclasses.replace(planned, prompt=template), "dataset")(columns, range(34, 54))
    assert because in str(together.value) and because in str(alone.value)


def test_the_second_system_message_of_many_rows_is_named() -> None:
    prompts = [[USER]] * 5 + [[SYSTEM, USER]]
    with pytest.raises(Refused, match="row 6 has a system message already"):
        rows_renderer(data(prompt=None, system_prompt="Think."), "dataset")({"prompt": prompts}, range(6))
    with pytest.raises(Refused, match=r"fix: remove dataset\.system_prompt"):
        rows_renderer(data(prompt=None, system_prompt="Think."), "evaluation")({"prompt": prompts}, range(6))


def test_long_texts_of_many_rows_share_no_limit_that_they_do_not_reach_alone() -> None:
    """They have 800 MB, and each alone may need 512."""
    render = rows_renderer(data(prompt="{{ 'ab' * (n // 2) }}", prompt_format="standard"), "dataset")
    texts = render({"n": [LONGEST_TEXT] * 200}, range(200))["prompt"]
    assert {len(text) for text in texts} == {LONGEST_TEXT}


def test_the_limits_of_a_template_cost_little() -> None:
    render = rows_renderer(data(), "dataset")
    alone = calls(lambda: [rendered(data(), ROW, index) for index in range(200)])
    rows = {name: [value] * 200 for name, value in ROW.items()}
    together = calls(lambda: render(rows, range(200)))
    assert together < alone / 2, (alone, together)
