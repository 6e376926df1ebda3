"""Checks of right answers that are tried: empty, cut off, in two spellings, all at once, and in what passes."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from test_forms_of_answers import OPTIONS, Table

from grpo_recipes.worker.preflight._shared.reward_seen import Call, RewardSeen
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen
from grpo_recipes.worker.preflight._shared.tools_seen import ToolCall, ToolsSeen
from grpo_recipes.worker.preflight.checks import (
    answers_are_of_one_kind,
    answers_are_spelled_one_way,
    data_gives_steps,
    one_answer_is_paid,
    passes_are_right,
    rewards_are_of_one_scale,
    rewards_do_not_depend_on_the_batch,
    rewards_teach,
    right_answers_are_given,
    right_answers_are_paid,
    right_answers_are_whole,
    tool_answers_are_meaningful,
)
from grpo_recipes.worker.preflight.made_calls import examples, made_calls
from grpo_recipes.worker.preflight.spellings import respelled
from grpo_recipes.worker.preflight.trials import trials

Values = list[dict[str, float | None]]


def _seen(
    answers: list[Any], *rewards: tuple[float, Values], prompt: str = "a", passes: Any = None, **texts: list[str]
) -> Seen:
    """Rewards as (weight, values of each row by kind of completion); the first reads `solution`."""
    prompts = [prompt] * len(answers)
    table: Any = Table({"prompt": prompts, "solution": answers})
    rows = Rows("dataset", len(prompts), table, prompts, range(len(prompts)))
    names = ["right", "other"][: len(rewards)]
    judged = []
    for index, (weight, values) in enumerate(rewards):
        entries = [(row, case) for row, each in enumerate(values) for case in each]
        call = Call("all", "own", "values", entries, [each[case] for each in values for case in each])
        reads = ("completions",) if index else ("completions", "solution")
        judged.append(RewardSeen(index, names[index], "python", weight, (call,), reads))
    of_set = SimpleNamespace(passes=passes, pass_at=[1], section="evaluation")
    plan: Any = SimpleNamespace(
        data=SimpleNamespace(columns={}),
        rewards=[SimpleNamespace(target=f"mine.py:{name}", name=name) for name in names],
        evaluation=SimpleNamespace(sets=[of_set]),
    )
    known = {"gold": "column solution as it is", "reference": "solution", "sample": [*range(len(prompts))]}
    return Seen(plan, OPTIONS, data=rows, rewards=judged, trial_texts=texts, **known)


def _messages(check: Any, seen: Seen) -> list[str]:
    return [fault.message for fault in check.check(seen)]


GOLD, OTHER, EVERY, SPELLED = "gold", "another row's gold", "all right answers", "gold, spelled otherwise"


@pytest.mark.parametrize(
    ("values", "prompt", "severity"),
    [
        ({GOLD: 1.0, "empty": 1.0, "words": 1.0}, "a", "warning"),
        ({GOLD: 1.0, "empty": 1.0, "words": 0.0}, "Leave it empty without a name.", "note"),
        ({GOLD: None, "empty": None, "words": None}, "a", None),
    ],
)
def test_empty_right_answers_are_named(values: dict[str, float | None], prompt: str, severity: str | None) -> None:
    right: dict[str, float | None] = {GOLD: 1.0, "empty": 0.0, "words": 0.0}
    seen = _seen(["4", "", "5"], (1.0, [right, values, right]), prompt=prompt)
    faults = [*right_answers_are_given.check(seen)]
    message = "1 of 3 right answers are empty, such as that of row 2"
    assert [(fault.severity, fault.message) for fault in faults] == ([(severity, message)] if severity else [])
    assert _messages(right_answers_are_given, _seen(["4", "6", "5"], (1.0, [right] * 3))) == []


SENTENCES = [f"Oslo, the capital, was founded {' '.join('so long ago and again'[: n % 7 + 9])}." for n in range(20)]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (SENTENCES, None),
        ([text[:30] for text in SENTENCES], "20 of 20 right answers are 30 characters long, and none is longer"),
        ([f"{text[:12]}..." for text in SENTENCES], "20 of 20 right answers end with three dots"),
        ([f"2024-01-{n + 10} 12:00:00" for n in range(20)], None),
        (["the same short answer here"] * 20, None),
        ([text[:30] for text in SENTENCES[:6]], None),
        ([f"{n}.5 km per hour" for n in range(20)], None),
        ([f"He has {n} + 3 apples.\n#### {n + 3}" for n in range(20)], None),
    ],
)
def test_right_answers_that_are_cut_off_are_named(answers: list[str], message: str | None) -> None:
    answers = [f"{text[:-1]}{'abcdefghij'[n % 10]}" if len(text) == 30 else text for n, text in enumerate(answers)]
    assert _messages(right_answers_are_whole, _seen(answers, (1.0, []))) == ([message] if message else [])


@pytest.mark.parametrize(
    ("answers", "prompt", "expected"),
    [
        (["1,849", "5"], "In 1849 he had how many?", ["1849", "5"]),
        (["1,849", "5"], "He paid $2,000. How much is left of 1849?", None),
        (["1,849", "12"], "How many?", None),
        (["\N{MINUS SIGN}6", "4"], "Reply with the number, such as -3.", ["-6", "4"]),
        (["\N{MINUS SIGN}6", "4"], "How many?", None),
        (["12,5", "3.5"], "How many?", ["12.5", "3.5"]),
        (["12,5", "3,5"], "How many?", None),
        (["49.0", "7.0"], "What is 40 + 9?", ["49", "7"]),
        (["49.0", "7.0"], "What is 40 + 9? Give one decimal.", None),
        (["49.0", "7.5"], "What is 40 + 9?", ["49", "7.5"]),
        (["49.0", "7.5"], "What is 40.0 + 9?", None),
        (["yes", "Yes", "yes", "no"], "Is it?", ["yes", "yes", "yes", "no"]),
        (["a1", "A1"], "Which cell?", None),
        (["yes", "no"], "Is it? Answer Yes or No.", ["Yes", "No"]),
        (["Positive", "Negative"], "Answer positive or negative.", ["positive", "negative"]),
        (["yes", "no"], "Is it? Say yes or no. Yes?", None),
        (["Yes", "No"], "Give no reason. Is it?", None),
        (["A", "B"], "Is it a or b?", None),
        (["3", "-3"], "How many?", None),
    ],
)
def test_answers_are_spelled_in_the_other_way_that_is_in_use(
    answers: list[str], prompt: str, expected: list[str] | None
) -> None:
    assert respelled(answers, [prompt] * len(answers)) == (expected or answers)


def test_a_reward_that_pays_one_of_two_spellings_is_named() -> None:
    texts = {GOLD: ["1,849", "5"], SPELLED: ["1849", "5"]}
    both, first = {GOLD: 1.0, SPELLED: 1.0}, {GOLD: 1.0, SPELLED: 0.0}
    message = "1 of 2 right answers are paid in one of two spellings: '1,849', not '1849'"
    assert _messages(answers_are_spelled_one_way, _seen(texts[GOLD], (1.0, [first, both]), **texts)) == [message]
    assert _messages(answers_are_spelled_one_way, _seen(texts[GOLD], (1.0, [both, both]), **texts)) == []


@pytest.mark.parametrize(
    ("every", "other", "is_named"), [(1.0, 0.0, True), (0.0, 0.0, False), (1.0, 1.0, False), (None, 0.0, False)]
)
def test_a_reward_that_pays_a_list_of_all_answers_is_named(every: float | None, other: float, is_named: bool) -> None:
    seen = _seen(["A", "B"], (1.0, [{GOLD: 1.0, OTHER: other, EVERY: every}] * 2), **{EVERY: ["A, B"] * 2})
    assert bool(_messages(one_answer_is_paid, seen)) == is_named


def test_all_answers_are_listed_as_right_ones_are_written() -> None:
    rows = [{"prompt": "End with 'Choice: '.", "solution": answer} for answer in "ABAB"]
    assert trials(rows, [], (), 0).texts[EVERY] == ["Choice: A, B"] * 4
    assert EVERY not in trials(rows[:2], [], (), 0).texts, "each row has its own answer"


@pytest.mark.parametrize(
    ("reward", "at_least", "message"),
    [
        ("right", 0.9, None),
        ("right", 1.0, "no right answer passes: right gives them at most 0.9, and at_least is 1"),
        ("other", 1.0, "wrong answers pass: other gives them 1, and at_least is 1"),
        ("other", 2.0, None),
    ],
)
def test_what_passes_is_compared_with_tried_answers(reward: str, at_least: float, message: str | None) -> None:
    right, form = {GOLD: 0.9, OTHER: 0.0}, {GOLD: 1.0, OTHER: 1.0}
    passes = SimpleNamespace(reward=reward, at_least=at_least)
    seen = _seen(["1", "2"], (1.0, [right] * 2), (1.0, [form] * 2), passes=passes)
    assert _messages(passes_are_right, seen) == ([message] if message else [])


@pytest.mark.parametrize(
    ("gold", "at_least", "message"),
    [
        ("solution", 90.0, "no right answer passes: right gives them at most 0.9, and at_least is 90"),
        ("", 90.0, "no completion passes: right gives at most 0.9, and at_least is 90"),
        ("", 5.0, None),
    ],
)
def test_a_threshold_in_percent_is_named_without_pass_at_k(gold: str, at_least: float, message: str | None) -> None:
    passes = SimpleNamespace(reward="right", at_least=at_least)
    seen = _seen(["1", "2"], (1.0, [{GOLD: 0.9, OTHER: 0.1}] * 2), passes=passes)
    seen.gold, seen.plan.evaluation.sets[0].pass_at = gold, []  # type: ignore[misc, union-attr]
    assert _messages(passes_are_right, seen) == ([message] if message else [])


@pytest.mark.parametrize(
    ("gold", "garbage", "message"),
    [
        (None, None, None),
        (None, 0.0, "reward right gives right answers no reward, but empty 0"),
        (0.0, None, "reward right gives right answers 0, but empty none"),
    ],
)
def test_a_missing_reward_is_not_called_0(gold: float | None, garbage: float | None, message: str | None) -> None:
    seen = _seen(["1", "2"], (1.0, [{GOLD: gold, "empty": garbage, OTHER: garbage}] * 2))
    seen.plan.all_environments = []  # type: ignore[misc, assignment]
    assert _messages(rewards_teach, seen) == ([message] if message else [])


@pytest.mark.parametrize(("paid", "weight", "is_named"), [(100.0, 1.0, True), (100.0, 6.0, False), (1.0, 0.01, False)])
def test_a_percentage_next_to_which_nothing_else_counts_is_named(paid: float, weight: float, is_named: bool) -> None:
    percent, short = [{GOLD: paid, OTHER: 0.0}] * 2, [{GOLD: 1.0, OTHER: 1.0, "words": 0.0}] * 2
    message = "reward right differs by 100 between completions, and other by 1"
    seen = _seen(["1", "2"], (1.0, percent), (weight, short))
    assert _messages(rewards_are_of_one_scale, seen) == ([message] if is_named else [])


@pytest.mark.parametrize(("weight", "is_named"), [(1.0, True), (0.1, False), (-1.0, True)])
def test_a_reward_beside_which_right_answers_do_not_count_is_named(weight: float, is_named: bool) -> None:
    right = [{GOLD: 1.0, OTHER: 0.0, "words": 0.0}] * 2
    words = [{GOLD: 1.0, OTHER: 1.0, "words": 40.0}] * 2
    message = "reward other differs by 39 between completions, and right answers count for 1"
    seen = _seen(["1", "2"], (1.0, right), (weight, words))
    assert _messages(rewards_are_of_one_scale, seen) == ([message] if is_named else [])
    infinite = [{GOLD: 1.0, OTHER: 1.0, "words": float("inf")}] * 2
    assert _messages(rewards_are_of_one_scale, _seen(["1", "2"], (1.0, right), (weight, infinite))) == []


@pytest.mark.parametrize(
    ("prompt", "answers", "is_named"),
    [
        ("Reason, and finish with the final number.", ["2 + 3 = 5, see page 7", "1 + 1 = 2, see page 9"], True),
        ("Reason, and finish with the final number.", ["5", "2 + 3 = 5, see page 7"], False),
        ("How do you add them?", ["2 + 3 = 5, see page 7", "1 + 1 = 2, see page 9"], False),
    ],
)
def test_texts_where_the_prompts_ask_for_a_number_are_named(prompt: str, answers: list[str], is_named: bool) -> None:
    message = f"the prompts ask for a number, and right answers are texts, such as {answers[0]!r}"
    seen = _seen(answers, (1.0, []), prompt=prompt, **{GOLD: answers})
    assert _messages(answers_are_of_one_kind, seen) == ([message] if is_named else [])


@pytest.mark.parametrize(("steps", "is_named"), [(300, False), (301, True)])
def test_more_than_a_hundred_epochs_are_named(steps: int, is_named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_gives_steps, "drops_incomplete_generations", lambda: True)
    seen = _seen(["1"] * 48, (1.0, []))
    seen.plan.sources = ()  # type: ignore[misc]
    seen.options = dataclasses.replace(OPTIONS, max_steps=steps)
    message = "100 epochs of 48 rows: the model learns them by heart"
    assert _messages(data_gives_steps, seen) == ([message] if is_named else [])


@pytest.mark.parametrize(
    ("answer", "reply", "is_named"),
    [("6.2", "16.1", True), ("It is 1,000.", "1000", False), ("done", "16.1", False), ("6.2", "no number", False)],
)
def test_a_scripted_end_without_the_tools_numbers_is_noted(answer: str, reply: str, is_named: bool) -> None:
    calls = (ToolCall("convert", {"a": 1}, True, reply),)
    seen = _seen(["1"], (1.0, []))
    seen.tools = ToolsSeen(calls=calls, scripted=True, answer=answer)
    seen.plan.tools = [SimpleNamespace(name="convert")]  # type: ignore[misc, list-item]
    faults = [*tool_answers_are_meaningful.check(seen)]
    assert [fault.severity for fault in faults] == (["note"] if is_named else [])


def _schema(**descriptions: str) -> dict[str, Any]:
    properties = {name: {"type": "string", "description": text} for name, text in descriptions.items()}
    return {"function": {"parameters": {"properties": properties, "required": [*descriptions]}}}


def test_examples_of_descriptions_are_tried_first() -> None:
    schema = _schema(city="Its name in English, such as Paris.", code="A program, e.g. print(sum(range(3)))")
    assert made_calls(schema)[0] == {"city": "Paris", "code": "print(sum(range(3)))"} == examples(schema)
    assert made_calls(schema)[1] == {"city": "another", "code": "another"}
    assert examples(_schema(city="Its name.")) == {}


@pytest.mark.parametrize(("is_example", "severity"), [(True, "warning"), (False, "note")])
def test_a_tool_that_answers_its_example_like_a_made_up_word_is_named(is_example: bool, severity: str) -> None:
    words = ("Paris", "another")
    calls = [ToolCall("look", {"city": word}, False, "no", is_example=is_example and word == "Paris") for word in words]
    seen = _seen(["1"], (1.0, []))
    seen.tools = ToolsSeen(calls=tuple(calls))
    seen.plan.tools = [SimpleNamespace(name="look")]  # type: ignore[misc, list-item]
    assert [fault.severity for fault in tool_answers_are_meaningful.check(seen)] == [severity]


@pytest.mark.parametrize(
    ("paid", "answers", "is_named"),
    [
        ([1.0, 0.0, 0.0], ["1", "2", "3"], True),
        ([1.0, 1.0, 0.0], ["1", "2", "3"], False),
        ([1.0, 1.0, 1.0], ["1", "2", "3"], False),
        ([1.0, 0.0, 0.0], ["1", "", ""], False),
        ([1.0, None, None], ["1", "2", "3"], False),
    ],
)
def test_rows_whose_right_answers_are_not_paid_are_named(
    paid: list[float | None], answers: list[str], is_named: bool
) -> None:
    values: Values = [{GOLD: value, "empty": None if value is None else 0.0} for value in paid]
    seen = _seen(answers, (1.0, values), **{GOLD: answers})
    message = "reward right does not pay the right answers of 2 of 3 rows"
    assert _messages(right_answers_are_paid, seen) == ([message] if is_named else [])


@pytest.mark.parametrize(("gold", "is_named"), [(1.0, False), (0.5, True)])
def test_another_answer_that_ends_alike_is_paid_too(gold: float, is_named: bool) -> None:
    """A reward may look at a part of the answer, such as its last digit; one of the wrong rows pays the other more."""
    alike: Values = [{GOLD: gold, "empty": 0.0, "another row's gold": 1.0} for _ in range(2)]
    apart: Values = [{GOLD: 1.0, "empty": 0.0, "another row's gold": 0.0} for _ in range(3)]
    seen = _seen(answers := ["12", "32", "5", "7", "9"], (1.0, [*alike, *apart]), **{GOLD: answers})
    assert bool(_messages(right_answers_are_paid, seen)) == is_named


@pytest.mark.parametrize(("together", "is_named"), [([0.5, 0.0, 1.0, 0.0], True), ([1.0, 0.0, 0.5, 0.0], False)])
def test_a_reward_that_depends_on_other_prompts_is_named(together: list[float], is_named: bool) -> None:
    entries = [(row, case) for row in (0, 1) for case in (GOLD, "empty")]
    calls = (
        Call("one row again", "own", "values", entries[:2], [1.0, 0.0]),
        Call("all", "own", "values", entries, together),
        Call("again", "own", "values", entries, together),
    )
    seen = _seen(["1", "2"])
    seen.rewards = [RewardSeen(0, "ranked", "python", 1.0, calls)]
    message = "reward ranked gives 1 of 2 completions a different value if other prompts are scored with them"
    assert _messages(rewards_do_not_depend_on_the_batch, seen) == ([message] if is_named else [])
