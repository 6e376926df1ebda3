"""Rows that are rendered in batches are those that jinja2 renders one by one, and its refusals stay."""

import contextlib
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from worker_runs import planned_data

from grpo_recipes.contract.plan import Data
from grpo_recipes.worker._shared.replacing import Refused

pytestmark = pytest.mark.stack
ROWS = [
    {
        "question": f"{text} {number}+1=",
        "answer": f"so  #### {text}{number} ",
        "self": "me",
        "null": None if number == 2 else "x",
        "number": number,
        "messages": [{"role": "user", "content": text}],
        "nested": {"a": [number, None], "b": text},
        "prompt": [{"role": "user", "content": text}],
    }
    for number, text in enumerate(
        ["a", "\u00dcn\u0130\u01c5\U0001f600", "\x1c\u2003 b\u00a0\u200b\x85", "\x00<b>&{{ 1 }}", "####"]
    )
]


def data(**changes: object) -> Data:
    return Data(**planned_data("rows.jsonl", **{"columns": {}, "max_rows": None, **changes}))  # type: ignore[arg-type]


def rendered(planned: Data, folder: Path, rows: Any, without: str = "") -> Any:
    """The rows, or what is said of the one that cannot be rendered. without: a way that is closed."""
    from grpo_recipes.worker.data import dataset
    from grpo_recipes.worker.data.plain_templates import NotPlain

    file = folder / f"rows-{without}.arrow"
    closed = patch.object(dataset, without, side_effect=NotPlain) if without else contextlib.nullcontext()
    try:
        with closed:
            made = dataset.render_rows(rows, planned, "dataset", file)
    except Refused as refused:
        return str(refused)
    return list(made), made.features.arrow_schema, made.format["type"]


PLAIN = [
    "{{ question }}",
    "",
    "no column\n",
    "{% raw %}{{ question }}{% endraw %}{# remark #} {{ question }}\n",
    "{{ answer.split('####')[-1] | trim }}",
    "{{ answer.split('####', 1)[0] }}: {{ question | upper }}!\n\n{{ question.lower() }}{{ answer | lower }}",
    "{{ answer.split()[1].strip('#').replace('a', '\\u0130\\n').removeprefix('x') }}",
    "{{- question.lstrip() -}} x",
]


@pytest.mark.parametrize("template", PLAIN)
@pytest.mark.parametrize("shape", ["conversational", "standard"])
@pytest.mark.parametrize("system", [None, "Think."])
def test_a_plain_template_makes_the_rows_of_jinja2(
    template: str, shape: str, system: str | None, tmp_path: Path
) -> None:
    from datasets import Dataset

    rows = Dataset.from_list(ROWS)
    how = {"prompt_format": shape, "system_prompt": system, "columns": {"answer": template, "new": template}}
    planned = data(prompt=template, **how)
    batched = rendered(planned, tmp_path, rows, "rows_renderer")
    assert batched == rendered(planned, tmp_path, rows, "batch_renderer")
    parts = [4, 0, 2]  # as a preflight looks at them
    assert rendered(planned, tmp_path, rows.select(parts), "rows_renderer")[0] == [batched[0][row] for row in parts]


def test_a_given_prompt_stays_beside_plain_columns(tmp_path: Path) -> None:
    from datasets import Dataset

    rows, planned = Dataset.from_list(ROWS), data(prompt=None, columns={"new": "{{ question }}"})
    assert rendered(planned, tmp_path, rows, "rows_renderer") == rendered(planned, tmp_path, rows, "batch_renderer")


FOR_JINJA2 = [
    "{{ null }}",
    "{{ missing }}",
    "{{ range }}",
    "{{ self }}",
    "{{ number }}",
    "{{ messages[0].content }}",
    "{{ nested.b }}",
    "{{ question.format(1) }}",
    "{{ question.__class__ }}",
    "{{ answer.split('')[0] }}",
    "{{ answer.split('####')[4] }}",
    "{{ answer.split('####')['x'] }}",
    "{{ answer.split('####') }}",
    "{{ question | trim('a') }}",
    "{{ question | length }}",
    "{{ question.replace('a') }}",
    "{{ question * 2 }}",
    "{{ 'x' }}",
    "{{ question",
    "{% if number == 3 %}{{ 1 / 0 }}{% endif %}",
    "{% for one in question %}{{ one }}{% endfor %}",
    "{{ question.replace('', 'x' * 9) }}",
    "{{ question.replace('', '" + "x" * 9999 + "').replace('', '" + "x" * 99999 + "') }}",
]


@pytest.mark.parametrize("template", FOR_JINJA2)
def test_what_is_not_plain_becomes_what_jinja2_makes_of_it(template: str, tmp_path: Path) -> None:
    from datasets import Dataset

    rows = Dataset.from_list(ROWS)
    planned = data(prompt="{{ question }}", columns={"new": template})
    assert rendered(planned, tmp_path, rows) == rendered(planned, tmp_path, rows, "batch_renderer")
    assert sorted(tmp_path.iterdir()) in ([], [tmp_path / "rows-.arrow", tmp_path / "rows-batch_renderer.arrow"])


def test_a_system_prompt_before_given_prompts_is_refused_by_row(tmp_path: Path) -> None:
    from datasets import Dataset

    rows = Dataset.from_list([*ROWS, {**ROWS[0], "prompt": [{"role": "system", "content": "b"}]}])
    said = rendered(data(prompt=None, system_prompt="Think."), tmp_path, rows)
    assert said.startswith("dataset: row 6 has a system message already")


def test_a_format_that_hides_columns_is_left_to_jinja2(tmp_path: Path) -> None:
    from datasets import Dataset

    planned = data(prompt="{{ question }}")
    for rows in (
        Dataset.from_list(ROWS).with_format(columns=["question"]),
        Dataset.from_list(ROWS).select_columns(["question", "answer"]).with_format("numpy"),
    ):
        expected = rendered(planned, tmp_path, rows, "batch_renderer")
        assert str(rendered(planned, tmp_path, rows)) == str(expected)


def test_a_text_that_is_too_long_is_refused_by_row(tmp_path: Path) -> None:
    from datasets import Dataset

    from grpo_recipes.worker.data.templates import LONGEST_TEXT

    rows = Dataset.from_list([*ROWS[:2], {**ROWS[2], "question": "x" * (LONGEST_TEXT + 1)}])
    assert rendered(data(), tmp_path, rows).startswith("dataset.prompt: row 3 cannot fill the template")
