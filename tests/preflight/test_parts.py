"""The parts of preflight, nearly all without a stack."""

import ast
import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_recipes.cli.commands.preflight import preflight_text
from grpo_recipes.cli.main import main
from grpo_recipes.contract.findings.finding import mistake
from grpo_recipes.contract.plan import Reward
from grpo_recipes.contract.plan_machine import Batch
from grpo_recipes.explain.pages import known_ids
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker.preflight._shared.reward_seen import Call, RewardSeen
from grpo_recipes.worker.preflight._shared.seen import Options, Rows, Seen
from grpo_recipes.worker.preflight.checks import (
    chat_template_renders,
    prompts_are_not_empty,
    reward_models_are_not_tested,
    rewards_are_fast,
    rewards_are_given,
    rewards_teach,
)
from grpo_recipes.worker.preflight.checks.rows_can_be_used import of_problem, of_refused
from grpo_recipes.worker.preflight.summary import trials
from grpo_recipes.worker.user_code.reward_call import called

CHECKS = Path(__file__).parents[2] / "grpo_recipes" / "worker" / "preflight" / "checks"
STACK = "trl==1.16.0,transformers==5.23.0,gpus=0"
OPTIONS: dict[str, Any] = {
    "rows": 4,
    "time_limit": 1.0,
    "memory_limit": None,
    "seed": 1,
    "max_steps": None,
    "epochs": 3.0,
    "num_iterations": 1,
    "shuffled": True,
}
BATCH = Batch(micro_batch=32, accumulation=4, steps_per_generation=4, num_generations=8, prompts=16)


def _called(function: Callable[..., Any], count: int = 2, **given: Any) -> dict[str, Any]:
    return called(function, given, count, "", contextlib.nullcontext())


@pytest.mark.stack
def test_rows_are_drawn_from_all_parts_of_the_data_and_the_same_ones_each_time() -> None:
    from grpo_recipes.worker.preflight.inspect import spread

    places = spread(1000, 10, seed=3)
    assert [place // 100 for place in places] == list(range(10))
    assert places == spread(1000, 10, seed=3) != spread(1000, 10, seed=4)
    assert spread(3, 10, seed=3) == [0, 1, 2]
    assert spread(0, 10, seed=3) == []


def test_steps_of_an_epoch_leave_out_the_generation_that_is_not_full() -> None:
    assert Options(batch=BATCH, **OPTIONS).steps_per_epoch(7126) == 445
    assert Options(batch=BATCH, **OPTIONS).steps_per_epoch(15) == 0
    halves = Options(batch=replace(BATCH, accumulation=2, prompts=32), **OPTIONS)
    assert (halves.steps_per_epoch(64), halves.calls_per_step) == (4, 0.5), "two steps share a generation"
    again = Options(batch=BATCH, **{**OPTIONS, "num_iterations": 3})
    assert (again.steps_per_epoch(64), again.calls_per_step) == (12, pytest.approx(1 / 3))


def test_an_answer_is_numbers_none_or_what_is_wrong_with_it() -> None:
    assert _called(lambda: [1, None])["values"] == [1.0, None]
    assert _called(lambda: (float("nan"), True))["values"] == [None, 1.0]
    assert _called(lambda: [1e39, -math.inf])["values"] == [math.inf, -math.inf]
    wrong = {
        "a single float": lambda: 0.5,
        "NoneType": lambda: None,
        "str": lambda: "ab",
        "3 values for 2 completions": lambda: [1, 2, 3],
        "a list of float, str": lambda: [1.0, "b"],
    }
    for words, function in wrong.items():
        outcome = _called(function)
        assert (outcome["kind"], outcome["error"]) == ("wrong", words)


def test_an_asynchronous_reward_is_awaited() -> None:
    async def reward(completions: list[str]) -> list[float]:
        return [float(len(completion)) for completion in completions]

    assert _called(reward, completions=["a", "bc"])["values"] == [1.0, 2.0]


def test_only_an_argument_of_the_reward_itself_is_a_missing_column(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def inner(x): pass\n\ndef outer(**kwargs):\n    return inner()\n\ndef wants(tests): pass\n")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    outer = called(names["outer"], {}, 1, str(tmp_path), contextlib.nullcontext())
    assert (outer["kind"], outer["missing"], outer["place"]) == ("raised", [], "mine.py:4: return inner()")
    wants = called(names["wants"], {}, 1, str(tmp_path), contextlib.nullcontext())
    assert wants["missing"] == ["tests"]
    more = called(names["wants"], {"tests": [], "solution": []}, 1, str(tmp_path), contextlib.nullcontext())
    assert more["unexpected"] == "solution"


def test_an_exception_that_cannot_say_its_text_is_told_by_its_kind() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise TypeError("no text")

    def raises() -> None:
        raise Mute

    assert (_called(raises)["kind"], _called(raises)["error"]) == ("raised", "Mute")


def _row(prompt: str, **columns: Any) -> dict[str, Any]:
    return {"prompt": [{"role": "user", "content": prompt}], **columns}


def test_right_answers_are_the_reference_as_it_is_and_in_the_tags_that_are_asked_for() -> None:
    plain = trials([_row("1+1=", solution="2"), _row("1+2=", solution="3")], ["solution"], (), seed=0)
    assert plain.texts["gold"] == ["2", "3"]
    assert plain.texts["another row's gold"] == ["3", "2"]
    assert plain.gold == "column solution as it is"
    tags = Reward("shipped", "tag_format", "tag_format", 1.0)
    for rows, rewards in (
        ([_row("1+1=", answer=2)], (tags,)),
        ([_row("Reason in <think>, then <answer>. 1+1=", answer=2)], ()),
    ):
        made = trials(rows, [], rewards, seed=0)
        assert made.texts["gold in tags"] == ["<think>\nbecause of the above\n</think>\n<answer>\n2\n</answer>"]
        assert (made.texts["gold"], made.texts["empty"]) == (["2"], [""])
        assert "another row's gold" not in made.texts, "there is no other row"


def test_without_a_reference_there_are_only_empty_and_garbage_completions() -> None:
    made = trials([_row("a", solution=None), _row("b", solution=" ")], ["solution"], (), seed=0)
    assert (list(made.texts), made.gold, made.reference) == (["empty", "words", "noise"], "", None)
    assert made == trials([_row("a"), _row("b")], [], (), seed=0), "the same each time"


def test_what_a_shipped_reward_is_asked_is_not_a_right_answer() -> None:
    for name, row in (
        ("countdown", _row("a", nums=[1, 2], target=3)),
        ("follows_instruction", _row("a", ground_truth="{}")),
    ):
        made = trials([row], [], (Reward("shipped", name, name, 1.0),), seed=0)
        assert (made.gold, made.reference) == ("", None)


def test_what_the_worker_says_of_rows_is_a_fault_at_its_key() -> None:
    path = ("dataset", "columns", "a.b")
    said = mistake("row 3 has no q", seen=["= template: {{ q }}"], because="no q", fix="mend it", path=path)
    fault = of_refused(Refused(said), "dataset")
    assert (fault.rule, fault.path, fault.key) == ("PFL001", path, "dataset.columns.a.b")
    assert (fault.because, fault.fix) == (("template: {{ q }}", "no q"), "mend it")
    assert of_refused(Refused.of("evaluation: x.jsonl has no rows"), "evaluation").path == ("evaluation",)
    assert of_problem(OSError("no"), "x", "evaluation.sets.easy").path == ("evaluation", "sets", "easy", "path")


def test_what_is_shown_moves_no_cursor() -> None:
    shown = {
        "lines": [("rows", "3\x1b[2J")],
        "tools": [{"name": "add", "schema": {"type": "func\x1btion"}}, {"name": "odd", "schema": None}],
        "examples": [{"row": 1, "prompt": "a\nb\r", "gold": {"gold": "c"}}],
        "played": None,
        "judges": [],
        "rewards": [
            {"name": "short", "weight": 0.5, "values": {"gold": 1.0, "empty": None}, "seconds": 0.25},
            {"name": "judge", "weight": 1.0, "values": {}, "seconds": None},
        ],
    }
    assert preflight_text(shown).split("\n") == [
        "rows        3\\x1b[2J",
        "",
        "tool add",
        "  | {",
        '  |  "type": "func\\u001btion"',
        "  | }",
        "",
        "prompt of row 1",
        "  | a",
        "  | b\\r",
        "  gold: c",
        "",
        "reward  weight  gold  empty  time per call",
        "short   0.5     1     none   0.25 s",
        "judge   1       -     -      -",
    ]


def test_what_was_played_is_shown_turn_by_turn() -> None:
    call = {"tool": "add", "arguments": {"a": 1}, "answer": "2\n\x1b3", "failed": False, "turn": True, "seconds": 0.5}
    beside = {**call, "arguments": {"a": 2}, "answer": "{'error': 'no'}", "failed": True, "turn": False}
    played: dict[str, Any] = {"row": 4, "scripted": False, "calls": [call, beside], "answer": "2", "tokens": 9}
    played["rewards"] = {"short": 1.0, "judge": None}
    shown = {"lines": [], "tools": [], "examples": [], "played": played, "rewards": [], "judges": []}
    assert preflight_text(shown).split("\n") == [
        "played on row 4 (generated from the tools, 9 tokens)",
        "  add(a=1) -> 2  (0.5 s)",
        "    \\x1b3",
        "  says 2",
        "  reward short: 1",
        "  reward judge: none",
        "  also tried",
        "  add(a=2) -> {'error': 'no'}  (failed, 0.5 s)",
    ]
    assert preflight_text({**shown, "played": {**played, "calls": []}}) == ""


def test_calls_are_made_of_the_types_of_a_schema() -> None:
    from grpo_recipes.worker.preflight.play_tools import made_calls

    def calls(required: list[str] | None = None, /, **properties: Any) -> list[dict[str, Any]]:
        parameters = {"properties": properties, **({} if required is None else {"required": required})}
        return made_calls({"function": {"parameters": parameters}})

    assert calls() == [{}], "a tool without parameters has one call"
    assert [one["a"] for one in calls(a={"type": "integer"})] == [7, 2, 31]
    assert calls(a={"type": "string", "enum": ["x", "y"]}) == [{"a": "x"}, {"a": "y"}], "the third would be the first"
    assert calls(question={"type": "string"})[0] == {"question": "example"}, "no text of the data"
    assert calls(["a"], a={"type": "boolean"}, b={"type": "integer"}) == [{"a": True}, {"a": False}]
    values = calls(
        a={"type": ["null", "number"]},
        b={"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}]},
        c={"type": "array", "prefixItems": [{"type": "string"}, {"type": "boolean"}]},
        d={"type": "object", "additionalProperties": {"type": "integer"}},
        e={},
    )
    assert values[0] == {"a": 7.5, "b": [7], "c": ["example", True], "d": {"example": 7}, "e": "example"}


def _seen(*rewards: RewardSeen, **more: Any) -> Seen:
    plan: Any = SimpleNamespace(expect=SimpleNamespace(world_size=2), model=SimpleNamespace(path="./model"))
    more = {"data": SimpleNamespace(), **more}
    return Seen(plan, Options(batch=BATCH, **{**OPTIONS, "max_steps": 100}), rewards=list(rewards), **more)


def _gave(values: list[float | None], seconds: float = 0.0, weight: float = 1.0) -> RewardSeen:
    entries = tuple((place // 2, ("gold", "empty")[place % 2]) for place in range(len(values)))
    calls = (Call("all", "own", "values", entries, tuple(values), seconds),)
    return RewardSeen(0, "mine", "python", weight, calls)


def test_a_slow_reward_is_a_note_from_ten_seconds_and_a_warning_from_a_minute_per_step() -> None:
    # 16 prompts of 8 completions on two processes: a process judges 64 in a step.
    assert not list(rewards_are_fast.check(_seen(_gave([1.0, 0.0], seconds=2 * 0.15))))
    (note,) = rewards_are_fast.check(_seen(_gave([1.0, 0.0], seconds=2 * 0.2)))
    (warning,) = rewards_are_fast.check(_seen(_gave([1.0, 0.0], seconds=2 * 1.0)))
    assert (note.severity, warning.severity) == ("note", "warning")
    assert warning.message == "reward mine takes 1 s for a completion, about 64 s of each optimizer step"
    assert warning.because == ("a process judges 64 completions in a step, 1.8 h in 100 steps",)


def test_a_reward_model_is_said_not_to_be_tried() -> None:
    (fault,) = reward_models_are_not_tested.check(_seen(RewardSeen(1, "judge", "model", 1.0)))
    assert (fault.severity, fault.path) == ("not-checked", ("rewards", 1))


def test_weights_that_are_all_zero_teach_nothing() -> None:
    (fault,) = rewards_teach.check(_seen(_gave([1.0, 0.0], weight=0.0)))
    assert (fault.severity, fault.message) == ("error", "the weight of every reward is 0")


def test_equal_sums_are_equal_whatever_float_rounds() -> None:
    """0.1 + 0.2 is more than 0.3 in binary."""
    seen = _seen(_gave([0.1, 0.0]), _gave([0.2, 0.0]), _gave([0.0, 0.3]), gold="solution")
    (fault,) = rewards_teach.check(seen)
    assert fault.message == "right answers get 0.3, but empty completions get 0.3"


def test_rows_without_any_reward_are_one_mistake() -> None:
    rows: Any = SimpleNamespace(column_names=["prompt"])
    data = Rows("dataset", 2, rows, ["a", "b"], [0, 1])
    nothing = _seen(_gave([None, None, None, None]), data=data, sample=[0, 1])
    assert not list(rewards_teach.check(nothing))
    (fault,) = rewards_are_given.check(nothing)
    assert (fault.severity, fault.message) == ("error", "2 of 2 rows get no reward from any function")
    one = _seen(_gave([None, None, 1.0, 0.0]), data=data, sample=[0, 1])
    (fault,) = rewards_are_given.check(one)
    assert (fault.severity, fault.because[0]) == ("warning", "rows 1")


def test_messages_without_a_chat_template_are_an_error() -> None:
    rows: Any = SimpleNamespace(column_names=["prompt"])
    data = Rows("dataset", 1, rows, [[{"role": "user", "content": "a"}]], [0])
    (fault,) = chat_template_renders.check(_seen(data=data, sample=[0], tokenizer=SimpleNamespace(chat_template=None)))
    assert fault.severity == "error"
    assert fault.because == ("./model has none",)


@pytest.mark.parametrize("text", ['[{"role": "user", "content": "a"}]', "[{'content': 'a', 'role': 'user'}]"])
def test_messages_written_as_text_are_doubtful(text: str) -> None:
    rows: Any = SimpleNamespace(column_names=["prompt"])
    data = Rows("dataset", 2, rows, ["[1, 2]", text], [0, 1])
    (fault,) = prompts_are_not_empty.check(_seen(data=data, sample=[0, 1]))
    assert (fault.severity, fault.because) == ("warning", ("row 2: it is a list of messages written as text",))


def test_a_role_is_doubtful_unless_the_template_knows_it() -> None:
    rows: Any = SimpleNamespace(column_names=["prompt"])
    data = Rows("dataset", 1, rows, [[{"role": "human", "content": "a"}]], [0])
    (fault,) = prompts_are_not_empty.check(_seen(data=data, tokenizer=SimpleNamespace(chat_template="{{ messages }}")))
    assert fault.severity == "warning"
    knows = SimpleNamespace(chat_template="{% if messages[0].role == 'human' %}Q{% endif %}")
    assert not list(prompts_are_not_empty.check(_seen(data=data, tokenizer=knows)))


def _ids() -> list[str]:
    """The ids of all checks, by file."""
    return [
        ast.literal_eval(node.value)
        for path in sorted(CHECKS.glob("[!_]*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "ID"
    ]


def test_every_check_has_an_id_and_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(set(_ids())) == len(_ids()) == len(list(CHECKS.glob("[!_]*.py")))
    pages = known_ids()
    for identity in _ids():
        page = pages[identity]
        assert page.split("\n")[0].endswith(".")
        for heading in ("What: ", "Why: ", "Fix: ", "Example: "):
            assert f"\n{heading}" in page, (identity, heading)
    with pytest.raises(SystemExit) as ended:
        main(["explain", "pfl001", "--target", STACK])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("PFL001\n\nThe rows can be loaded")


def test_a_recipe_with_errors_is_refused_before_anything_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "recipe.yaml").write_text("recipe: 1\nname: x\nnonsense: 1\n")
    with pytest.raises(SystemExit) as ended:
        main(["preflight", str(tmp_path / "recipe.yaml")])
    assert ended.value.code == 2
    assert "nonsense" in capsys.readouterr().out
