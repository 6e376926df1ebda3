"""Gold completions are what generation could have drawn: after the same prompt, with the same end."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_runs import Changes

from grpo_recipes.contract.read_plan import plan_of

pytestmark = pytest.mark.stack

Make = Callable[..., Changes]
OPENED = "{% if add_generation_prompt %}<|im_start|>{% endif %}"
PREFILL = OPENED.replace("<|im_start|>", "<|im_start|>a=")
WITHOUT_END = "{% for message in messages %}<|im_start|>{{ message['content'] }}{% endfor %}" + OPENED


class Table(list[Changes]):
    """Prepared rows, as far as a warm start reads them."""

    def __getitem__(self, key: Any) -> Any:
        return [row[key] for row in self] if isinstance(key, str) else super().__getitem__(key)

    def select(self, places: list[int]) -> "Table":
        return Table(list.__getitem__(self, place) for place in places)


def tokenized(
    make_plan: Make, tiny_model: Path, answers: list[str], template: str | None = None, **expect: Any
) -> tuple[list[Any], Any]:
    """What becomes of answers to 1+1=, and the tokenizer."""
    from transformers import AutoTokenizer

    from grpo_recipes.worker._shared.prefill import Prefill
    from grpo_recipes.worker.data.gold_rows import gold_tokens
    from grpo_recipes.worker.data.prompt_tokens import PromptTokens
    from grpo_recipes.worker.data.templates import ANSWER
    from grpo_recipes.worker.ends.ends import Ends

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    if template is not None:
        tokenizer.chat_template = template
    arguments = {"generation_kwargs": expect.pop("kwargs", None)}
    plan = plan_of(make_plan("full", shims=expect.pop("shims", {}), arguments=arguments))
    prompt: Any = expect.pop("prompt", [{"role": "user", "content": "1+1="}])
    tokens = PromptTokens(plan, lambda: tokenizer, lambda: ())
    ends = Ends((2, *expect.pop("ids", ())), expect.pop("stop", ()), tokenizer, frozenset({2}))
    rows = Table({"prompt": prompt, ANSWER: answer} for answer in answers)
    return gold_tokens(rows, plan, tokens, ends, Prefill.of_plan(plan, lambda: tokenizer)), tokenizer


@pytest.mark.parametrize(
    ("answer", "template", "more", "prompt", "completion"),
    [
        ("2", None, {}, "<|im_start|>1+1=<|im_end|><|im_start|>", "2<|im_end|>"),
        ("2", WITHOUT_END, {}, "<|im_start|>1+1=<|im_start|>", "2<|im_end|>"),
        ("a=2", None, {"prefill": True}, "<|im_start|>1+1=<|im_end|><|im_start|>a=", "2<|im_end|>"),
        ("2", None, {"prefill": True}, "<|im_start|>1+1=<|im_end|><|im_start|>a=", "2<|im_end|>"),
        ("2=", None, {"stop": ("=",)}, "<|im_start|>1+1=<|im_end|><|im_start|>", "2="),
        ("2z", None, {"ids": (40,)}, "<|im_start|>1+1=<|im_end|><|im_start|>", "2z"),
        ("2", None, {"prompt": "1+1="}, "1+1=", "2<|im_end|>"),
        ("2", None, {"shims": {"max_prompt_length": 3}}, "=<|im_end|><|im_start|>", "2<|im_end|>"),
    ],
    ids=[
        "chat",
        "template without an end",
        "with its prefill",
        "after a prefill",
        "stop",
        "stop token",
        "plain text",
        "cut prompt",
    ],
)
def test_the_tokens_are_those_of_generation(
    answer: str, template: str | None, more: Changes, prompt: str, completion: str, make_plan: Make, tiny_model: Path
) -> None:
    from support.tiny_models import TEMPLATE

    template = TEMPLATE.replace(OPENED, PREFILL) if more.pop("prefill", False) else template
    (row,), tokenizer = tokenized(make_plan, tiny_model, [answer], template, **more)
    assert (tokenizer.decode(row.prompt), tokenizer.decode(row.completion)) == (prompt, completion)


def test_answers_that_generation_would_end_elsewhere_are_named(make_plan: Make, tiny_model: Path) -> None:
    answers = ["1=2", "1<|im_end|>2", "", "1234567", "12345"]
    made, _ = tokenized(make_plan, tiny_model, answers, stop=("=",))
    assert made[:4] == [
        "ends after 2 of its 3 tokens, with '='",
        "ends after 2 of its 3 tokens, with '<|im_end|>'",
        "is empty",
        "has 8 tokens with its end, more than max_completion_length 6",
    ]
    assert len(made[4].completion) == 6


@pytest.mark.parametrize("name", ["min_new_tokens", "min_tokens"])
def test_answers_shorter_than_generation_can_give_are_named(name: str, make_plan: Make, tiny_model: Path) -> None:
    made, _ = tokenized(make_plan, tiny_model, ["12", "123"], kwargs={name: 3})
    assert made[0] == "has 2 tokens before its end, fewer than min_tokens 3"
    assert len(made[1].completion) == 4


@pytest.mark.parametrize("seed", [7, None])
def test_each_pass_has_every_row_once(seed: int | None) -> None:
    from grpo_recipes.worker.data.gold_rows import GoldRow, GoldRows

    rows = GoldRows([GoldRow([number], [number]) for number in range(5)], [], seed)
    drawn = [row.prompt[0] for step in range(5) for row in rows.batch(step, 3)]
    passes = [drawn[begin : begin + 5] for begin in range(0, 15, 5)]
    assert passes[0] == [0, 1, 2, 3, 4]
    assert all(Counter(each) == Counter(range(5)) for each in passes)
    assert (passes[1] == passes[0]) is (seed is None)
