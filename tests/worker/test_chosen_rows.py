"""The rows that a recipe chooses: by a filter, by the length of their prompts, shuffled by a seed."""

import json
import logging
import re
import uuid
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from worker_runs import planned_data

from grpo_recipes.contract.files.regular_file import file_sha256
from grpo_recipes.contract.plan import Data
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.data.limits import TooMuch

pytestmark = pytest.mark.stack
LEVELS = ["1", "3", "4", "3", "5", "4", "1", "3"]
ROWS = [{"question": "n" * n + f" {n}+1=", "answer": str(n + 1), "level": level} for n, level in enumerate(LEVELS)]


class Counted:
    """Counts characters for tokens. of: as of PromptTokens."""

    of = "characters"

    def __init__(self) -> None:
        self.times = 0

    def counts(self, prompts: list[Any]) -> list[int]:
        self.times += len(prompts)
        return [len(prompt[-1]["content"]) for prompt in prompts]


def data_of(folder: Path, rows: list[Any] = ROWS, **changes: Any) -> Data:
    file = folder / "rows.jsonl"
    file.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return Data(**planned_data(file, sha256=file_sha256(file), **changes))


def prepared(data: Data, tokens: Any = None, seen: dict[str, object] | None = None) -> Any:
    from grpo_recipes.worker.data.dataset import prepare_rows

    cache = Path(data.path).parent / uuid.uuid4().hex
    rows = prepare_rows(data, "dataset", cache, 0, seen, tokens=tokens or Counted())
    assert [file.name for file in cache.glob("*.arrow")] == ["dataset-0.arrow"]
    return rows


def kept(data: Data, tokens: Any = None) -> list[int]:
    """The places of the rows that stay, each with the prompt and column of its row."""
    rows = list(prepared(data, tokens))
    places = [int(row["answer"]) - 1 for row in rows]
    assert [row["prompt"][0]["content"] for row in rows] == [ROWS[place]["question"] for place in places]
    assert [row["solution"] for row in rows] == [ROWS[place]["answer"] for place in places]
    return places


@pytest.mark.parametrize(
    ("filter", "places"),
    [
        ("{{ level in ('3', '4') }}", [1, 2, 3, 5, 7]),
        ("{{ level | int > 3 and not question.startswith('nnnnn') }}", [2, 4]),
        ("{% if level == '1' %} True\n{% else %}False{% endif %}", [0, 6]),
        ("{% set few = level | int < 2 %}{{ few }}", [0, 6]),
        ("{{ prompt_tokens <= 7 }}", [0, 1, 2]),
        ("{{ prompt_tokens > 6 and level == '3' }}", [3, 7]),
        ("{{ solution == '4' }}", [3]),
        ("{{ prompt[0].content is in ['n 1+1='] }}", [1]),
        ("{{ True }}", list(range(8))),
        ("{% set level = level | int %}{{ level > 3 }}", [2, 4, 5]),
        ("{% for each in [level] %}{{ loop.first and each == '5' }}{% endfor %}", [4]),
        ("{% macro few(of) %}{{ of | int < 2 }}{% endmacro %}{{ few(level) }}", [0, 6]),
    ],
)
def test_a_filter_keeps_the_rows_of_which_it_is_true(filter: str, places: list[int], tmp_path: Path) -> None:
    template = "{% if question %}{{ question }}{% endif %}"  # which is not for batches
    for prompt in ("{{ question }}", template):
        assert kept(data_of(tmp_path, filter=filter, prompt=prompt)) == places
        assert kept(data_of(tmp_path, filter=filter, prompt=prompt, max_rows=2)) == places[:2]


def test_longer_prompts_go_above_the_limit_alone(tmp_path: Path) -> None:
    assert kept(data_of(tmp_path, max_prompt_tokens=8)) == [0, 1, 2, 3]
    assert kept(data_of(tmp_path, max_prompt_tokens=8, filter="{{ level != '3' }}", max_rows=2)) == [0, 2]
    assert kept(data_of(tmp_path, max_prompt_tokens=8, filter="{{ prompt_tokens > 5 }}")) == [1, 2, 3]
    assert kept(data_of(tmp_path, max_prompt_tokens=12, over="error")) == list(range(8))
    assert kept(data_of(tmp_path, max_prompt_tokens=10, over="error", max_rows=6)) == list(range(6)), "7 is longer"


def test_lengths_are_shown_beside_rows_of_the_filter(tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        kept(data_of(tmp_path, max_prompt_tokens=2, filter="{{ level == '3' }}"))
    (finding,) = refused.value.findings
    assert [line.partition(": ")[0] for line in finding.seen] == ["row 1", "row 2", "row 4"]
    assert finding.seen[1:] == ("row 2: 6 tokens", "row 4: 8 tokens")


def test_the_order_of_a_seed_is_written_down(tmp_path: Path) -> None:
    """The same on every machine and release: these numbers never change."""
    order = [6, 5, 0, 2, 1, 3, 4, 7]
    assert kept(data_of(tmp_path, shuffle_seed=3)) == order
    assert kept(data_of(tmp_path, shuffle_seed=3, max_rows=3)) == order[:3]
    of_level = [place for place in order if LEVELS[place] == "3"]
    assert kept(data_of(tmp_path, shuffle_seed=3, filter="{{ level == '3' }}")) == of_level
    assert kept(data_of(tmp_path, shuffle_seed=3, filter="{{ prompt_tokens < 9 }}", max_rows=3)) == [0, 2, 1]
    assert kept(data_of(tmp_path, shuffle_seed=4)) != order


def test_a_filter_over_own_columns_leaves_out_what_no_template_can_fill(tmp_path: Path) -> None:
    rows = [*ROWS, {**ROWS[0], "question": None}]
    assert len(prepared(data_of(tmp_path, rows, filter="{{ question is not none }}"))) == 8
    assert len(prepared(data_of(tmp_path, rows, filter="{{ question != none and true }}"))) == 8
    own = data_of(
        tmp_path, [{"prompt": "a"}, {"prompt": None}], prompt=None, columns={}, filter="{{ prompt or '' != '' }}"
    )
    with pytest.raises(Refused, match="the result is 'a', neither True nor False"):
        prepared(own)
    assert len(prepared(replace(own, filter="{{ (prompt or '') != '' }}"))) == 1


NULL = [{**row, "level": None} if place == 5 else row for place, row in enumerate(ROWS)]
LACKING = [{k: v for k, v in row.items() if k != "level" or place != 5} for place, row in enumerate(ROWS)]
NESTED = [{**row, "of": {"level": None if place == 5 else row["level"]}} for place, row in enumerate(ROWS)]


@pytest.mark.parametrize(
    ("rows", "filter", "said"),
    [
        pytest.param(LACKING, "{{ level in ('3', '4') }}", "row 6.*level is null in this row", id="lacking"),
        pytest.param(NULL, "{{ level == '3' }}", "row 6.*level is null in this row", id="null"),
        pytest.param(NULL, "{{ level | int > 2 }}", "row 6", id="null number"),
        pytest.param(NULL, "{{ level }}", "row 1.*the result is '1', neither True nor False", id="value"),
        pytest.param(NESTED, "{{ of.level == '3' }}", "row 6.*level is null in this row", id="nested"),
        pytest.param(NULL, "{{ prompt_tokens > 0 and level < '3' }}", "row 6", id="with tokens"),
        pytest.param(ROWS, "{{ levels == '3' }}", "has no column levels", id="no column"),
        pytest.param(ROWS, "{{ loop.index < 3 }}", "has no column loop", id="loop"),
        pytest.param(ROWS, "{{ 1 / (level | int - 5) > 0 }}", "row 5.*division by zero", id="raises"),
        pytest.param(ROWS, "{{ level == }}", "not a jinja2 template", id="syntax"),
        pytest.param(ROWS, "{{ level.__class__ == 1 }}", "the filter fails on row 1", id="unsafe"),
        pytest.param(ROWS, "x\0True", "the filter fails on row 1", id="end"),
        pytest.param(
            [{**ROWS[0], "prompt_tokens": 1}], "{{ prompt_tokens > 1 }}", "has a column named prompt_tokens", id="own"
        ),
    ],
)
def test_a_row_that_cannot_be_judged_is_named(rows: list[Any], filter: str, said: str, tmp_path: Path) -> None:
    data = data_of(tmp_path, rows, filter=filter)
    with pytest.raises(Refused, match=f"(?s)^dataset.filter: .*{said}") as stopped:
        prepared(data)
    assert data.path in str(stopped.value) or "not a jinja2" in said


@pytest.mark.parametrize(
    ("rows", "filter", "fix"),
    [
        (ROWS, "{{ level }}", 'compare, as in "{{ level == 3 }}"'),
        (NULL, "{{ prompt_tokens > 0 and level < '3' }}", 'test for null first: "{{ level is not none and ... }}"'),
        (NESTED, "{{ of.level == '3' }}", None),
    ],
)
def test_the_fix_names_the_column(rows: list[Any], filter: str, fix: str | None, tmp_path: Path) -> None:
    with pytest.raises(Refused) as stopped:
        prepared(data_of(tmp_path, rows, filter=filter))
    assert [finding.fix for finding in stopped.value.findings] == [fix]


def test_nulls_can_be_asked_for(tmp_path: Path) -> None:
    for filter in ("{{ level is not none and level == '4' }}", "{{ level != none and level == '4' }}"):
        assert kept(data_of(tmp_path, NULL, filter=filter)) == [2]
    assert kept(data_of(tmp_path, NULL, filter="{{ (level or '4') == '4' }}")) == [2, 5]
    assert kept(data_of(tmp_path, NESTED, filter="{{ of.level is none }}")) == [5]


def test_names_of_jinja2_and_of_mappings_are_columns_first(tmp_path: Path) -> None:
    rows = [{**row, "range": row["level"], "of": {"items": row["level"]}} for row in ROWS]
    for filter in ("{{ range == '5' }}", "{{ range is not none and range == '5' }}", "{{ of.items == '5' }}"):
        assert [row["answer"] for row in prepared(data_of(tmp_path, rows, filter=filter))] == ["5"]


def test_a_null_is_shown_as_one(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="row 1: the filter is False, level null"):
        prepared(data_of(tmp_path, NULL[5:6], filter="{{ level is not none }}"))


@pytest.mark.parametrize(
    ("filter", "is_named"),
    [("{{ level == 9 }}", True), ("{{ level in [8, 9] }}", True), ("{{ level == '9' }}", False)],
)
def test_a_text_that_is_compared_with_a_number_is_named(tmp_path: Path, filter: str, is_named: bool) -> None:
    with pytest.raises(Refused) as refused:
        prepared(data_of(tmp_path, filter=filter))
    assert ("row 1: the filter is False, level '1' is a text, which equals no number" in str(refused.value)) == is_named


def test_a_filter_that_takes_too_much_is_ended(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"the filter fails on row 1(?s:.*)MiB of memory"):
        prepared(data_of(tmp_path, filter="{{ level * 10**10 != '' }}"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"filter": "{{ level == '9' }}"},
            r"dataset.filter: none of the 8 rows of .*rows.jsonl is left\n.*row 1: the filter is False, level '1'"
            r"(?s:.*)because: 8 of 8 rows: 8 by the filter",
        ),
        (
            {"max_prompt_tokens": 2},
            r"dataset.max_prompt_tokens: none of the 8 rows of .*rows.jsonl is left\n.*row 1: 5 tokens"
            r"(?s:.*)because: 8 of 8 rows: 8 longer than 2 tokens",
        ),
        (
            {"max_prompt_tokens": 10, "over": "error"},
            r"dataset.max_prompt_tokens: 2 of 8 prompts are longer than 10\n.*the first is in row 7 of "
            r".*rows.jsonl, with 11 tokens(?s:.*)limit: 12",
        ),
    ],
    ids=["filter", "limit", "error"],
)
def test_rows_that_nothing_or_too_much_is_left_of_are_one_message(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(Refused) as stopped:
        prepared(data_of(tmp_path, **changes))
    assert re.match(said, str(stopped.value)), str(stopped.value)


def test_a_prompt_that_no_template_renders_is_named(tmp_path: Path) -> None:
    class Broken(Counted):
        def counts(self, prompts: list[Any]) -> list[int]:
            if any("nnnn" in prompt[0]["content"] for prompt in prompts):
                raise ValueError("no such prompt")
            return super().counts(prompts)

    with pytest.raises(Refused, match=r"the prompt of row 5 cannot be counted(?s:.*)no such prompt"):
        prepared(data_of(tmp_path, max_prompt_tokens=8), Broken())


def test_prompts_that_are_too_much_together_are_counted_one_by_one(tmp_path: Path) -> None:
    class Slow(Counted):
        def counts(self, prompts: list[Any]) -> list[int]:
            if len(prompts) > 1:
                raise TooMuch("it takes too long")
            return super().counts(prompts)

    assert kept(data_of(tmp_path, max_prompt_tokens=8), Slow()) == [0, 1, 2, 3]


def test_one_broken_line_of_many_is_named(tmp_path: Path) -> None:
    rows = [json.dumps(row) for row in ROWS * 2_500]
    rows[14_000] = rows[14_000][:-2]
    with pytest.raises(Refused, match=r"rows.jsonl:14001: the line is not JSON"):
        prepared(data_of(tmp_path, rows, filter="{{ level == '3' }}"))
    rows[14_000] = '{"question": "1+1=", "answer": "2"}'
    with pytest.raises(Refused, match="the filter fails on row 14001"):
        prepared(data_of(tmp_path, rows, filter="{{ level == '3' }}"))


def test_what_is_left_is_found_again(tmp_path: Path) -> None:
    seen = [dict[str, object]() for _ in range(3)]
    for found, changes in zip(seen, ({}, {"filter": "{{ level == '3' }}"}, {"shuffle_seed": 3}), strict=True):
        prepared(data_of(tmp_path, **changes), seen=found)  # type: ignore[arg-type]
    whole = ("dataset.rows", "dataset.fingerprint")
    assert [[one[key] for key in whole] for one in seen[1:]] == [[seen[0][key] for key in whole]] * 2
    assert sorted(seen[0]) == sorted(whole)
    assert [one.get("dataset.kept.rows") for one in seen] == [None, 3, 8]
    assert seen[1]["dataset.kept.fingerprint"] != seen[2]["dataset.kept.fingerprint"] != seen[2]["dataset.fingerprint"]


@pytest.mark.parametrize("first", [0, 1])
def test_rows_are_chosen_once_for_resumes_and_for_other_processes(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grpo_recipes.worker.data import dataset

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    data, cache = data_of(tmp_path, max_prompt_tokens=8, filter="{{ level != '3' }}"), tmp_path / "cache"
    tokens, seen = Counted(), [dict[str, object](), dict[str, object]()]
    taken = [
        dataset.prepare_rows(data, "dataset", cache, rank, each, is_resumed_later=True, first=0, tokens=tokens)  # type: ignore[arg-type]
        for rank, each in zip((0, first), seen, strict=True)
    ]
    assert tokens.times == 5
    assert list(taken[0]) == list(taken[1])
    assert seen[0] == seen[1]
    tokens.of = "another tokenizer"
    dataset.prepare_rows(data, "dataset", cache, 0, {}, is_resumed_later=True, first=0, tokens=tokens)  # type: ignore[arg-type]
    assert tokens.times == 10


def test_rows_that_fill_no_generation_are_not_trained_on(make_plan: Any, trained: Any, sums: Path) -> None:
    plan = make_plan("full", data=planned_data(sums, filter="{{ question == '3+9=' }}"))
    refused = trained(plan)
    assert refused.exit_code == 3, refused.output
    assert "1 rows are left, and a generation has 2 prompts" in str(refused.record)


def test_a_long_prompt_is_counted_without_a_warning(tiny_model: Path) -> None:
    from transformers import AutoTokenizer

    from grpo_recipes.worker.data.prompt_tokens import PromptTokens

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.model_max_length = 2
    plan: Any = SimpleNamespace(arguments=SimpleNamespace(GRPOConfig={}), model="", tokenizer="", tools=())
    tokens = PromptTokens(plan, lambda: tokenizer, tuple)
    said: list[logging.LogRecord] = []
    keeps = logging.Handler()
    keeps.emit = said.append  # type: ignore[method-assign]
    logging.getLogger("transformers").addHandler(keeps)
    assert tokens.counts(["1+1=2+3+4"])[0] > 2
    logging.getLogger("transformers").removeHandler(keeps)
    assert said == []


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        pytest.param({"sort_by": "level"}, [0, 6, 1, 3, 7, 2, 5, 4], id="texts, and equal ones as they were"),
        pytest.param({"sort_by": "-level"}, [4, 2, 5, 1, 3, 7, 0, 6], id="the largest first"),
        pytest.param({"sort_by": "rank", "columns": {"rank": "{{ 9 - (answer | int) }}"}}, [7, 6, 5, 4, 3, 2, 1, 0]),
        pytest.param({"sort_by": "level", "max_rows": 3}, [0, 1, 2], id="the rows that max_rows takes"),
        pytest.param({"sort_by": "level", "filter": "{{ level != '1' }}"}, [1, 3, 7, 2, 5, 4], id="a filter before it"),
        pytest.param({"sort_by": "level", "max_prompt_tokens": 6}, [0, 1], id="a limit before it"),
    ],
)
def test_rows_are_sorted_by_a_column(changes: dict[str, Any], places: list[int], tmp_path: Path) -> None:
    changes["columns"] = {"solution": "{{ answer }}", **changes.get("columns", {})}
    assert kept(data_of(tmp_path, **changes)) == places


def test_sorted_rows_are_as_sorted_after_a_resume(tmp_path: Path) -> None:
    from grpo_recipes.worker.data.dataset import prepare_rows

    data, cache = data_of(tmp_path, sort_by="-level"), tmp_path / "cache"
    first, again = (list(prepare_rows(data, "dataset", cache, 0, is_resumed_later=True)) for _ in range(2))
    assert first == again
    assert [row["level"] for row in again] == sorted(LEVELS, reverse=True)


def test_numbers_and_a_text_have_no_order(tmp_path: Path) -> None:
    with pytest.raises(Refused) as raised:
        prepared(data_of(tmp_path, [{**ROWS[0], "level": value} for value in (9, 10, "x")], sort_by="level"))
    assert "its values are int and str" in raised.value.findings[0].because[0]


@pytest.mark.parametrize(
    ("rows", "sort_by", "message", "because"),
    [
        pytest.param(
            [*ROWS[:2], {**ROWS[2], "level": None}, *ROWS[3:]],
            "level",
            "1 of 8 rows of FILE have no level",
            "row 3 is the first, and cannot be sorted",
            id="a row without a value",
        ),
        pytest.param(
            ROWS, "rate", "FILE has no column rate", "the rows have the columns answer, level", id="no column"
        ),
        pytest.param(
            [{**row, "level": [1]} for row in ROWS],
            "-level",
            "column level of FILE cannot be sorted",
            "its values are list",
            id="lists",
        ),
    ],
)
def test_a_column_that_sorts_has_a_value_in_each_row(
    rows: list[Any], sort_by: str, message: str, because: str, tmp_path: Path
) -> None:
    data = data_of(tmp_path, rows, sort_by=sort_by)
    with pytest.raises(Refused) as raised:
        prepared(data)
    (finding,) = raised.value.findings
    assert finding.message == f"dataset.sort_by: {message.replace('FILE', data.path)}"
    assert because in finding.because[0]
    assert finding.path == ("dataset", "sort_by")
