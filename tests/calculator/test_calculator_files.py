"""The calculator's data, tool and model folder as files: what can be said of them without torch."""

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path

import jinja2
import pytest

CALCULATOR = Path(__file__).resolve().parents[2] / "recipes" / "calculator"
MODEL = CALCULATOR / "model"
QUESTION = re.compile(r"([1-9][0-9])\*([1-9][0-9])=")


def rows(file_name: str) -> list[dict[str, str]]:
    """The rows of train.jsonl or test.jsonl."""
    return [json.loads(line) for line in (CALCULATOR / file_name).read_text(encoding="utf-8").splitlines()]


def numbers(row: dict[str, str]) -> tuple[int, int]:
    """The two numbers of a question."""
    match = QUESTION.fullmatch(row["question"])
    assert match is not None, row
    return int(match[1]), int(match[2])


@pytest.fixture(scope="module")
def calculate() -> Callable[[str], str]:
    """The shipped tool."""
    spec = importlib.util.spec_from_file_location("shipped_calculator", CALCULATOR / "calculator.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[[str], str] = module.calculate
    return function


@pytest.mark.parametrize("file_name", ["train.jsonl", "test.jsonl"])
def test_the_tool_gives_the_right_answer_of_every_row(file_name: str, calculate: Callable[[str], str]) -> None:
    for row in rows(file_name):
        left, right = numbers(row)
        assert row == {"question": f"{left}*{right}=", "answer": str(left * right)}
        assert calculate(row["question"].removesuffix("=")) == row["answer"]


@pytest.mark.parametrize(
    ("expression", "value"), [("2+3*4", "14"), ("(2+3)*4", "20"), ("-7-1", "-8"), (" 12 * 12", "144")]
)
def test_sums_and_brackets_are_calculated(expression: str, value: str, calculate: Callable[[str], str]) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize(
    "expression", ["9**9", "1/2", "1.5*2", "a*2", "True*2", "abs(1)", "1," * 40, "1" * 101, "2*", ""]
)
def test_anything_else_is_refused(expression: str, calculate: Callable[[str], str]) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        calculate(expression)


def test_train_and_test_are_all_products_once() -> None:
    pairs = [numbers(row) for file_name in ("train.jsonl", "test.jsonl") for row in rows(file_name)]
    assert sorted(pairs) == [(a, b) for a in range(10, 100) for b in range(10, 100)]


def test_no_held_out_product_nor_its_mirror_is_trained_on() -> None:
    trained = {frozenset(numbers(row)) for row in rows("train.jsonl")}
    held_out = {frozenset(numbers(row)) for row in rows("test.jsonl")}
    assert not trained & held_out


def test_the_model_folder_stays_small() -> None:
    assert sum(file.stat().st_size for file in MODEL.iterdir()) < 2_000_000


def test_the_template_shows_tools_calls_and_replies() -> None:
    settings = json.loads((MODEL / "tokenizer_config.json").read_text(encoding="utf-8"))
    arguments = {"expression": "47*38"}
    messages = [
        {"role": "user", "content": "47*38="},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "calculate", "arguments": arguments}}],
        },
        {"role": "tool", "name": "calculate", "content": "1786"},
    ]
    tool = {"function": {"name": "calculate", "parameters": {"properties": {"expression": {"type": "string"}}}}}
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = json.dumps
    template = environment.from_string(settings["chat_template"])
    assert template.render(messages=messages, tools=[tool], add_generation_prompt=True) == (
        "<|im_start|>system\n<tools>calculate(expression)</tools><|im_end|>\n"
        "<|im_start|>user\n47*38=<|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>{"name": "calculate", "arguments": {"expression": "47*38"}}</tool_call>'
        "<|im_end|>\n<|im_start|>tool\n1786<|im_end|>\n<|im_start|>assistant\n"
    )
