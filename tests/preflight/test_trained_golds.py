"""What preflight says of the answers that a warm start trains: unpaid ones, open tags, and too many passes."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from test_right_answers import Values, _messages, _seen

from grpo_recipes.worker.data.gold_rows import GoldRow
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight.checks import gold_answers_can_be_trained

GOLD, TRAINED, OTHER = "gold", "trained gold", "another row's gold"
PAID: dict[str, float | None] = {GOLD: 1.0, "empty": 0.0, "words": 0.0, "noise": 0.0, TRAINED: 1.0}


def seen_golds(values: Values, texts: list[str], *, template: str = "{{ x }}", steps: int = 1, **known: Any) -> Seen:
    """One reward with its values, and the gold answers as texts; "" for one that is left out."""
    seen = _seen(["5"] * len(texts), (1.0, values))
    plan: Any = SimpleNamespace(
        **vars(seen.plan),
        warm_start=SimpleNamespace(answer=template, steps=steps),
        batch=SimpleNamespace(micro_batch=len(texts), accumulation=1),
        expect=SimpleNamespace(world_size=1),
    )
    golds = [GoldRow([1], [2]) if text else "is empty" for text in texts]
    trials = {GOLD: ["5"] * len(texts), TRAINED: texts}
    return dataclasses.replace(seen, plan=plan, golds=golds, trial_texts=trials, **known)


@pytest.mark.parametrize(
    ("values", "unpaid"),
    [
        (PAID, 0),
        ({**PAID, TRAINED: 0.2}, 0),
        ({**PAID, GOLD: 0.5, OTHER: 0.5, TRAINED: 0.5}, 0),  # of the form alone
        ({**PAID, GOLD: -9.0, "words": -20.0, TRAINED: -30.0}, 0),  # of the length
        ({**PAID, TRAINED: 0.0}, 2),
        ({**PAID, TRAINED: None}, 2),
        ({**PAID, OTHER: 0.2, TRAINED: 0.2}, 2),
    ],
)
def test_trained_answers_that_a_reward_does_not_pay_are_named(values: dict[str, float | None], unpaid: int) -> None:
    message = f"{unpaid} of 2 trained gold answers get no more than wrong ones from right"
    seen = seen_golds([values, {**PAID, TRAINED: 0.0}, values], ["so 5", "", "so 5"])
    assert _messages(gold_answers_can_be_trained, seen)[1:] == ([message] if unpaid else [])


@pytest.mark.parametrize(("first", "is_said"), [(0.0, True), (0.1, False), (-1.0, True)])
def test_without_right_answers_the_sum_of_the_rewards_is_compared(first: float, is_said: bool) -> None:
    values: Values = [{"empty": 0.0, "words": 0.0, "noise": 0.0, TRAINED: value} for value in (first, -0.1)]
    said = _messages(gold_answers_can_be_trained, seen_golds(values, ["3+4", "1+1"], gold="", reference=None))
    message = "2 of 2 trained gold answers get no more than wrong ones from all rewards together"
    assert said == ([message] if is_said else [])


@pytest.mark.parametrize(
    ("text", "template", "prefill", "tag"),
    [
        ("<think>so</think>5", "{{ x }}", "", None),
        ("so</think>5", "{{ x }}", "<think>\n", None),
        ("a List<int> of 5", "{{ x }}", "", None),
        ("<think>so 5", "{{ x }}", "", "think"),
        ("so 5", "{{ x }}", "<think>\n", "think"),
        ("<answer>5", "<answer>{{ x }}", "", "answer"),
        ("<think>a</think><think>5", "{{ x }}", "", "think"),
    ],
)
def test_answers_that_end_inside_a_tag_are_named(text: str, template: str, prefill: str, tag: str | None) -> None:
    said = _messages(gold_answers_can_be_trained, seen_golds([PAID], [text], template=template, prefills=[prefill]))
    assert said == ([f"1 of 1 gold answers open <{tag}> and do not close it"] if tag else [])


@pytest.mark.parametrize(("steps", "is_said"), [(20, False), (21, True)])
def test_many_passes_over_the_rows_are_named(steps: int, is_said: bool) -> None:
    said = [*gold_answers_can_be_trained.check(seen_golds([PAID] * 2, ["5", "5"], steps=steps))]
    assert [fault.message for fault in said] == ["the warm start trains each row about 21 times"] * is_said
    assert [fault.fix for fault in said] == ["steps: 3, or more rows"] * is_said
