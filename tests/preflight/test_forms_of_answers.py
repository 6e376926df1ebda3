"""Checks that compare right answers with prompts, held-out rows and rewards, on made tables."""

import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_recipes.contract.plan_machine import Batch
from grpo_recipes.worker.preflight._shared.reward_seen import Call, RewardSeen
from grpo_recipes.worker.preflight._shared.seen import Options, Rows, Seen
from grpo_recipes.worker.preflight._shared.tools_seen import PLAYED, RIGHT_AFTER_CALLS, ToolsSeen
from grpo_recipes.worker.preflight.checks import (
    answers_are_of_one_kind,
    environment_resets,
    evaluation_is_unseen,
    prompts_differ,
    prompts_hold_no_answers,
    prompts_name_the_keys,
    rewards_read_the_answer_after_tools,
    sorted_texts_have_an_order,
)

OPTIONS = Options(4, 1.0, None, 1, None, 3.0, 1, True, Batch(32, 4, 4, 8, 16))
SUMS = [f"{one}+1=" for one in range(8)]
WHOLE = [str(one + 1) for one in range(8)]
CHOICE = "What is it?\nA) one\nB) two\nC) three\nD) four\nAnswer with the letter only."


class Table(dict[str, list[Any]]):
    """Columns, as far as checks use those of `datasets`."""

    @property
    def column_names(self) -> list[str]:
        return [*self]


def _rows(where: str, prompts: list[Any], **columns: list[Any]) -> Rows:
    table: Any = Table({"prompt": prompts, **columns})
    return Rows(where, len(prompts), table, prompts, range(len(prompts)))


def _seen(data: Rows, *held_out: Rows, target: str = "exact_match", **more: Any) -> Seen:
    columns, prompt, sort_by = (
        {"solution": "{{ answer }}"},
        more.pop("prompt", "{{ question }}"),
        more.pop("sort_by", None),
    )
    environment = SimpleNamespace(name="Game")
    plan: Any = SimpleNamespace(
        data=SimpleNamespace(columns=columns, prompt=prompt, sort_by=sort_by),
        rewards=[SimpleNamespace(target=target, name=target)],
        findings=(),
        all_environments=["environment"],
        environment_class=environment,
    )
    kind = "python" if ":" in target else "shipped"
    reward = RewardSeen(0, target, kind, 1.0, more.pop("calls", ()), ("solution",))
    known = {"reference": "solution", "sample": [*range(len(data.prompts))], "rewards": [reward], **more}
    return Seen(plan, OPTIONS, data=data, held_out=[*held_out], **known)


@pytest.mark.parametrize(
    ("answers", "target", "form"),
    [
        (WHOLE, "exact_match", None),
        ([f"{one}.00" for one in WHOLE], "exact_match", "decimals, such as '1.00'"),
        ([f"{one},000" for one in WHOLE], "exact_match", "numbers with separators, such as '1,000'"),
        ([f"{one} kg" for one in WHOLE], "mine.py:reward", "numbers with a unit, such as '1 kg'"),
        ([f"{one}.00" for one in WHOLE], "accuracy", None),
        (["A", "1", "2.5", "x y"] * 2, "exact_match", None),
    ],
)
def test_held_out_answers_of_another_form_are_named(answers: list[str], target: str, form: str | None) -> None:
    seen = _seen(_rows("dataset", SUMS, solution=WHOLE), _rows("evaluation", SUMS, solution=answers), target=target)
    expected = [f"evaluation: right answers are {form}, and those of dataset are whole numbers"] if form else []
    assert [fault.message for fault in answers_are_of_one_kind.check(seen)] == expected


@pytest.mark.parametrize(
    ("prompt", "answers", "form"),
    [
        (CHOICE, list("01230123"), "whole numbers"),
        (CHOICE, list("ABCDABCD"), None),
        (CHOICE.replace("A)", "1)").replace("B)", "2)"), list("ABCDABCD"), "letters"),
        ("0) zero\n1) one\nA) or this\nB) or that", list("01010101"), None),
        ("What is A plus B?", list("01230123"), None),
    ],
)
def test_indices_of_options_with_letters_are_named(prompt: str, answers: list[str], form: str | None) -> None:
    faults = [*answers_are_of_one_kind.check(_seen(_rows("dataset", [prompt] * 8, solution=answers)))]
    messages = [fault.message for fault in faults]
    assert [f"right answers are {form}, such as" in message for message in messages] == ([True] if form else [])
    assert form != "whole numbers" or faults[0].fix == "solution: \"{{ 'ABCDEFGHIJ'[answer | int] }}\"", (
        "not [solution]"
    )


@pytest.mark.parametrize(
    ("prompt", "target", "gold", "is_named"),
    [
        ("Answer with one JSON document.", "exact_match", "{'name': 'Ann'}", True),
        ("Who is it?", "json_fields", "{'name': 'Ann', 'is_old': False}", True),
        ("List them as JSON.", "mine.py:reward", "['a', 'b']", True),
        ("Answer with one JSON document.", "json_fields", '{"name": "Ann"}', False),
        ("Answer with a JSON number.", "exact_match", "1", False),
        ("Answer with a Python dict.", "exact_match", "{'name': 'Ann'}", False),
    ],
)
def test_objects_in_the_form_of_python_are_named(prompt: str, target: str, gold: str, is_named: bool) -> None:
    rows = _rows("dataset", [prompt] * 4, solution=[gold] * 4)
    faults = [*answers_are_of_one_kind.check(_seen(rows, target=target, trial_texts={"gold": [gold] * 4}))]
    message = f"right answers have Python's form, not JSON's, such as {gold}"
    assert [fault.message for fault in faults] == ([message] if is_named else [])
    assert all(fault.fix == 'solution: "{{ answer | tojson }}"' for fault in faults)


@pytest.mark.parametrize(
    ("prompt", "gold", "fix"),
    [
        ("14+97=", "['111']", 'solution: "{{ answer | first }}"'),
        ("14+97=", "[111]", 'solution: "{{ answer | first }}"'),
        ("Who wrote it?", "['Ann', 'Bob']", "a template for solution that writes the answer as text"),
        ("Who wrote it?", "{'name': 'Ann'}", "a template for solution that writes the answer as text"),
        ("Give a Python list of the digits.", "['1', '2']", None),
        ("Sort [3, 1].", "[1, 3]", None),
        ("14+97=", "111", None),
    ],
)
def test_a_list_that_exact_match_compares_as_a_text_is_named(prompt: str, gold: str, fix: str | None) -> None:
    rows = _rows("dataset", [prompt] * 4, solution=[gold] * 4)
    faults = [*answers_are_of_one_kind.check(_seen(rows, target="exact_match", trial_texts={"gold": [gold] * 4}))]
    assert [fault.fix for fault in faults] == ([fix] if fix else [])


def test_keys_that_no_prompt_names_are_named() -> None:
    gold = [json.dumps({"amount_eur": one, "name": "Ana"}) for one in range(8)]

    def named(prompt: str) -> list[str]:
        seen = _seen(_rows("dataset", [prompt] * 8, solution=gold), target="json_fields", trial_texts={"gold": gold})
        return [fault.message for fault in prompts_name_the_keys.check(seen)]

    assert named("Give name and amount_eur.") == []
    assert named("Give the name and the amount.") == ["no prompt names amount_eur, which json_fields expects as keys"]


@pytest.mark.parametrize(
    ("values", "is_named"),
    [
        (["easy", "medium", "hard"], True),
        (["very easy", "Hard"], True),
        (["1 easy", "2 medium", "3 hard"], False),
        (["level 2", "level 10"], True),
        (["9", "10"], True),
        (["09", "10"], False),
        (["2024-01-02", "2024-11-01"], False),
        (["algebra", "geometry"], False),
        ([1, 10, 9], False),
        (["easy"], False),
    ],
)
def test_texts_whose_order_is_not_their_meaning_are_named(values: list[Any], is_named: bool) -> None:
    seen = _seen(_rows("dataset", SUMS[: len(values)], level=values), sort_by="-level")
    assert bool(list(sorted_texts_have_an_order.check(seen))) == is_named


@pytest.mark.parametrize(
    ("value", "target", "is_named"),
    [(0.0, "mine.py:reward", True), (1.0, "mine.py:reward", False), (0.0, "exact_match", False)],
)
def test_a_reward_that_reads_the_tool_call_is_named(value: float, target: str, is_named: bool) -> None:
    call = Call("all", "own", "values", [(0, "gold"), (0, "empty"), (0, PLAYED)], [1.0, 0.0, value])
    seen = _seen(_rows("dataset", SUMS, solution=WHOLE), target=target, calls=(call,), tools=ToolsSeen())
    assert bool(list(rewards_read_the_answer_after_tools.check(seen))) == is_named
    seen.tools = dataclasses.replace(ToolsSeen(), scripted=True, answer="so be it")
    assert not list(rewards_read_the_answer_after_tools.check(seen)), "the recipe's own turns end in no right answer"
    after = Call("all", "own", "values", [(0, "gold"), (0, RIGHT_AFTER_CALLS), (0, PLAYED)], [1.0, value, 0.0])
    seen = _seen(_rows("dataset", SUMS, solution=WHOLE), target=target, calls=(after,), tools=seen.tools)
    assert bool(list(rewards_read_the_answer_after_tools.check(seen))) == is_named


def test_a_right_answer_after_calls_has_the_asked_form() -> None:
    """A reward that pays only this form says nothing about answers in another one."""
    played = [(0, "gold"), (0, "gold in the asked form"), (0, PLAYED)]
    seen = {
        values: _seen(
            _rows("dataset", SUMS, solution=WHOLE),
            target="mine.py:reward",
            calls=(Call("all", "own", "values", played, values),),
            tools=ToolsSeen(),
        )
        for values in ((0.0, 1.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0))
    }
    assert [bool(list(rewards_read_the_answer_after_tools.check(of_values))) for of_values in seen.values()] == [
        False,
        True,
        False,
    ]


def test_a_worked_solution_in_the_prompt_is_named() -> None:
    worked = [f"{one} and 1 make {one + 1}." for one in range(8)]

    def named(template: str, texts: list[str]) -> list[str]:
        rows = _rows("dataset", SUMS, solution=WHOLE, rationale=texts, context=texts)
        return [fault.message for fault in prompts_hold_no_answers.check(_seen(rows, prompt=template))]

    message = "dataset: the prompt contains {{ rationale }}, which has the right answer in 8 of 8 rows"
    assert named("{{ question }}\nHint: {{ rationale }}", worked) == [message]
    assert named("{{ question }}\n{{ context }}", worked) == [], "a text that is read for its answer"
    assert named("{{ question }}\n{{ rationale }}", ["add 100"] * 8) == []


def test_what_resets_draw_at_random_is_noted() -> None:
    tools = ToolsSeen(varying={"number": ["7", "3", "9"]})
    (fault,) = environment_resets.check(_seen(_rows("dataset", SUMS), tools=tools))
    assert (fault.severity, fault.message) == (
        "note",
        "environment Game: number differs after resets with the same row: 7, 3, 9",
    )


def test_what_a_reset_leaves_of_the_played_turns_is_named() -> None:
    def named(**leftovers: list[str]) -> list[tuple[str, str]]:
        seen = _seen(_rows("dataset", SUMS), tools=ToolsSeen(leftovers=leftovers))
        return [(fault.severity, fault.message.partition(": ")[2]) for fault in environment_resets.check(seen)]

    board, reward = ["[]", "[1]"], ["0.0", "1.0"]
    note = ("note", "after a reset, board is [1] where turns were played before, and [] in a new object")
    warning = ("warning", "after a reset, get_reward is 1.0 where turns were played before, and 0.0 in a new object")
    assert (named(), named(board=board), named(board=board, get_reward=reward)) == ([], [note], [warning])


def test_an_environment_s_rows_differ_by_what_its_reset_gets() -> None:
    def named(environments: list[str], prompts: list[str], seeds: list[int]) -> list[str]:
        seen = _seen(_rows("dataset", prompts, seed=[1, 2]), _rows("evaluation", ["Guess  the Number."], seed=seeds))
        seen.plan.all_environments = environments  # type: ignore[misc, assignment]
        return [fault.message for check in (prompts_differ, evaluation_is_unseen) for fault in check.check(seen)]

    same, unseen = ["Guess the number."] * 2, "1 of 1 prompts of the evaluation are also trained on"
    assert named([], same, [3]) == ["all 2 prompts are equal", unseen]
    assert named(["environment"], same, [3]) == []
    assert named(["environment"], same, [2]) == [unseen]


def test_copies_among_held_out_rows_are_named() -> None:
    """Intervals count each as a separate row, but the model answers copies alike."""

    def named(held_out: list[str]) -> list[str]:
        seen = _seen(_rows("dataset", SUMS, solution=WHOLE), _rows("evaluation", held_out))
        seen.plan.all_environments = []  # type: ignore[misc, assignment]
        return [fault.message for fault in prompts_differ.check(seen)]

    questions = [f"{n}+{n}=" for n in range(10)]
    assert named(questions * 4) == ["evaluation: 30 of 40 prompts are copies of an earlier one"]
    assert named([*questions, questions[0]]) == []
