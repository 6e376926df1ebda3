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
from support.releases import pinned

from grpo_recipes.cli.commands.preflight import preflight_text
from grpo_recipes.cli.main import main
from grpo_recipes.contract.findings.finding import mistake
from grpo_recipes.contract.plan import Reward
from grpo_recipes.contract.plan_machine import Batch
from grpo_recipes.explain.pages import known_ids
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.preflight._shared.hosted import _end_of, end_words
from grpo_recipes.worker.preflight._shared.reward_seen import Call, RewardSeen
from grpo_recipes.worker.preflight._shared.seen import DeclaredEnds, Options, Rows, Seen, spread
from grpo_recipes.worker.preflight.checks import (
    chat_template_renders,
    gold_is_an_answer,
    prompts_are_not_empty,
    prompts_are_rendered_once,
    prompts_hold_no_answers,
    reward_models_are_not_tested,
    rewards_are_fast,
    rewards_are_given,
    rewards_teach,
    right_answers_differ,
    stop_tokens_exist,
    stops_end_no_answer,
    values_are_read_as_written,
)
from grpo_recipes.worker.preflight.checks.rows_can_be_used import of_problem, of_refused
from grpo_recipes.worker.preflight.trials import trials
from grpo_recipes.worker.user_code.reward_call import call_reward

CHECKS = Path(__file__).parents[2] / "grpo_recipes" / "worker" / "preflight" / "checks"
MODEL = Path(__file__).parents[2] / "recipes" / "quickstart" / "model"
STACK = f"{pinned('trl transformers')},gpus=0"
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
    return call_reward(function, given, count, "", contextlib.nullcontext())


def test_rows_are_drawn_from_all_parts_of_the_data_and_the_same_ones_each_time() -> None:
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


@pytest.mark.parametrize(
    ("code", "words"), [(3, "ended its process with exit code 3"), (-11, "ended its process with signal SIGSEGV")]
)
def test_a_process_that_ends_early_is_told_by_its_code(code: int, words: str) -> None:
    assert end_words(_end_of(code), 10.0) == words


def test_an_asynchronous_reward_is_awaited() -> None:
    async def reward(completions: list[str]) -> list[float]:
        return [float(len(completion)) for completion in completions]

    assert _called(reward, completions=["a", "bc"])["values"] == [1.0, 2.0]


def test_only_an_argument_of_the_reward_itself_is_a_missing_column(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def inner(x): pass\n\ndef outer(**kwargs):\n    return inner()\n\ndef wants(tests): pass\n")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    outer = call_reward(names["outer"], {}, 1, str(tmp_path), contextlib.nullcontext())
    assert (outer["kind"], outer["missing"], outer["place"]) == ("raised", [], "mine.py:4: return inner()")
    wants = call_reward(names["wants"], {}, 1, str(tmp_path), contextlib.nullcontext())
    assert wants["missing"] == ["tests"]
    more = call_reward(names["wants"], {"tests": [], "solution": []}, 1, str(tmp_path), contextlib.nullcontext())
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


@pytest.mark.parametrize(
    ("asked", "right"),
    [
        ("End with a line '#### <number>'.", "#### 2"),
        ("Explain, then end with 'Answer: <number>'.", "Answer: 2"),
        ('Finish with a JSON object: {"answer": <number>}', '{"answer": 2}'),
        ("End with 'Choice: ' and the letter.", "Choice: 2"),
        ("End with Answer: N.", "Answer: 2"),
        ("Think, then answer.", None),
    ],
)
def test_right_answers_are_tried_in_the_form_that_every_prompt_asks_for(asked: str, right: str | None) -> None:
    made = trials([_row(f"{asked} {sum_}", solution="2") for sum_ in ("1+1=", "0+2=")], ["solution"], (), seed=0)
    assert made.texts.get("gold in the asked form", [None])[0] == right
    assert "gold in tags" not in made.texts, "a placeholder is no tag"


OPEN, CLOSED = "<think>\n", "<think>\n\n</think>\n\n"


@pytest.mark.parametrize(
    ("prefill", "in_tags", "after_thinking"),
    [
        (
            OPEN,
            "because of the above\n</think>\n<answer>\n2\n</answer>",
            "because of the above\n</think>\n2",
        ),
        (CLOSED, "<answer>\n2\n</answer>", None),
        ("<think>\nso\n</think>\n<answer>", "2\n</answer>", "because of the above\n</answer>\n2"),
    ],
)
def test_right_answers_are_what_a_model_writes_after_the_prefill(
    prefill: str, in_tags: str, after_thinking: str | None
) -> None:
    rows, tags = [_row("1+1=", solution="2")], Reward("shipped", "tag_format", "tag_format", 1.0)
    own = Reward("python", "mine", "mine.py:mine", 1.0)
    made = trials(rows, ["solution"], (tags, own), 0, [prefill])
    assert (made.texts["gold"], made.texts["gold in tags"]) == (["2"], [in_tags])
    assert made.texts["prefill and gold"] == [prefill + in_tags]
    plain = trials(rows, ["solution"], (), 0, [prefill])
    assert plain.texts.get("gold in tags") == (None if after_thinking is None else [after_thinking])
    assert "prefill and gold" not in plain.texts, "shipped rewards judge both by themselves"
    assert trials([_row("1+1=", solution='{"a": 2}')], [], (), 0, ['{"a": ']).texts["gold"] == [" 2}"]


def test_right_answers_are_also_tried_as_a_model_writes_them() -> None:
    boxed = Reward("shipped", "accuracy", "accuracy", 1.0)
    texts = ["2", "so\n#### 1,000", r"so $x$ is \boxed{\frac{1}{2}}", "the total is $30$ km", r"$\pi$"]
    made = trials([_row("a", solution=text) for text in texts], [], (boxed,), 0)
    assert made.texts["gold's answer"] == ["2", "1,000", r"\frac{1}{2}", *texts[3:]]
    wanted = ["2", "1,000", r"\frac{1}{2}", "30", r"\pi"]
    assert made.texts[r"gold in \boxed{}"] == [rf"\boxed{{{text}}}" for text in wanted]
    assert "gold's answer" not in trials([_row("a", solution="2")], [], (), 0).texts


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
    from grpo_recipes.worker.preflight.made_calls import made_calls

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
    plan: Any = SimpleNamespace(
        expect=SimpleNamespace(world_size=2),
        model=SimpleNamespace(path="./model"),
        data=SimpleNamespace(columns={"solution": "{{ answer }}"}, prompt="{{ question }}"),
        findings=(),
    )
    more = {"data": SimpleNamespace(), **more}
    return Seen(plan, Options(batch=BATCH, **{**OPTIONS, "max_steps": 100}), rewards=list(rewards), **more)


def _gave(values: list[float | None], seconds: float = 0.0, weight: float = 1.0) -> RewardSeen:
    entries = tuple((place // 2, ("gold", "empty")[place % 2]) for place in range(len(values)))
    calls = (Call("all", "own", "values", entries, tuple(values), seconds),)
    return RewardSeen(0, "mine", "python", weight, calls)


@pytest.mark.stack
@pytest.mark.parametrize(("missing", "add_tokens", "names"), [(0, (), ""), (1, (), "'<|im_end|>'"), (1, ("<a>",), "")])
def test_a_token_of_the_prompts_that_the_model_lacks_is_named(
    missing: int, add_tokens: tuple[str, ...], names: str
) -> None:
    from transformers import AutoTokenizer, Qwen2Config

    tokenizer = AutoTokenizer.from_pretrained(str(MODEL))
    last = tokenizer.convert_tokens_to_ids("<|im_end|>")
    seen = _seen(tokenizer=tokenizer, config=Qwen2Config(vocab_size=last + 1 - missing), texts=["1+1=<|im_end|>"])
    seen.plan.tokenizer = SimpleNamespace(add_tokens=add_tokens)  # type: ignore[misc, assignment]
    seen.ends = DeclaredEnds((), (), ())
    known = [fault.message.partition("for: ")[2] for fault in stop_tokens_exist.check(seen)]
    assert known == ([names] if names else [])


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


def _judged(values: dict[str, list[float | None]], **more: Any) -> RewardSeen:
    """A reward that gave these values, by kind of completion."""
    entries = [(row, case) for case, of_case in values.items() for row in range(len(of_case))]
    given = [value for of_case in values.values() for value in of_case]
    call = Call("all", "own", "values", entries, given)
    return RewardSeen(0, "mine", **{"kind": "python", "weight": 1.0, "calls": (call,), **more})


def _with_rows(*rewards: RewardSeen, prompts: list[Any], **columns: list[Any]) -> Seen:
    from datasets import Dataset

    count = len(prompts)
    rows = Dataset.from_dict({"prompt": prompts, **columns})
    data = Rows("dataset", count, rows, prompts, range(count))
    return _seen(*rewards, data=data, sample=list(range(count)), gold="column solution", reference="solution")


@pytest.mark.stack
def test_a_reward_that_looks_for_the_prefill_is_told_of_it() -> None:
    values: dict[str, list[float | None]] = {"gold": [0.0], "empty": [0.0], "prefill and gold": [1.0]}
    seen = _with_rows(_judged(values), prompts=["1+1="], solution=["2"])
    seen.prefills = ["<think>\n"]
    (fault,) = rewards_teach.check(seen)
    assert fault.message == "reward mine gives at most 0, but 1 behind '<think>\\n'"
    assert str(fault.fix).startswith("add a parameter prefills=None")
    seen.rewards = [_judged({**values, "gold": [1.0]})]
    assert not list(rewards_teach.check(seen))


@pytest.mark.stack
def test_a_number_that_is_compared_with_a_text_is_named() -> None:
    values: dict[str, list[float | None]] = {"gold": [0.0], "empty": [0.0]}
    seen = _with_rows(_judged(values, parameters=("answer",)), prompts=["1+1="], answer=[2], solution=["2"])
    (fault,) = rewards_teach.check(seen)
    assert fault.fix == (
        'answer is the number 2, which equals no text: columns: {answer: "{{ answer }}"} under dataset, which makes it'
        " text; or compare it with str(answer)"
    )
    seen.rewards = [_judged(values)]
    (fault,) = rewards_teach.check(seen)
    assert str(fault.fix).startswith("solution is the text '2', which equals no number; compare a right answer")
    seen.unknown_names = {"mine": ["ground_truth"]}
    (fault,) = rewards_teach.check(seen)
    assert fault.fix == "mine reads ground_truth, which the rows lack; their columns are answer, solution"


@pytest.mark.stack
def test_answers_that_no_model_writes_are_named() -> None:
    texts = ["2", "so\n#### 4"]
    is_whole = _judged({"gold": [1.0, 1.0], "gold's answer": [1.0, 0.0]}, parameters=("solution",))
    seen = _with_rows(is_whole, prompts=["a", "b"], solution=texts)
    seen.trial_texts = {"gold": texts, "gold's answer": ["2", "4"]}
    (fault,) = gold_is_an_answer.check(seen)
    assert fault.message == "the right answers of 1 of 2 rows are paid only as whole solutions by mine"
    assert str(fault.fix) == "only the answer: solution: \"{{ answer.split('####')[-1] | trim }}\""
    seen.rewards = [_judged({"gold": [1.0, 1.0], "gold's answer": [1.0, 1.0]}, parameters=("solution",))]
    assert not list(gold_is_an_answer.check(seen))


def test_a_stop_inside_of_right_answers_is_named() -> None:
    seen = _seen(_judged({"gold in tags": [1.0], "empty": [0.0]}))
    seen.trial_texts = {"gold in tags": ["<think>\nso\n</think>\n<answer>\n2\n</answer>"]}

    def named(*stops: str) -> list[str]:
        seen.ends = DeclaredEnds((), (), stops)
        return [fault.message for fault in stops_end_no_answer.check(seen)]

    assert named("</answer>", "###") == []
    assert named("</think>") == ["stop '</think>' ends right answers before they are complete"]
    seen.rewards = [_judged({"gold in tags": [0.0], "empty": [0.0]})]
    assert named("</think>") == [], "no reward pays the answer in tags"


@pytest.mark.stack
def test_one_right_answer_for_all_rows_is_named() -> None:
    def named(answers: list[str], **more: Any) -> list[str]:
        seen = _with_rows(_judged({"gold": [1.0]}, **more), prompts=["a"] * len(answers), solution=answers)
        return [fault.message for fault in right_answers_differ.check(seen)]

    reads = {"parameters": ("solution",)}
    assert named(["A"] * 7 + ["B"], **reads) == []
    assert named(["A"] * 7, **reads) == []
    assert named(["A"] * 8) == [], "the reward reads a different column"
    assert named(["A"] * 8, **reads) == ["all 8 right answers are 'A'"]


def test_rows_that_a_slow_reward_was_not_called_for_are_counted() -> None:
    data = Rows("dataset", 3, SimpleNamespace(column_names=["prompt"]), ["a", "b", "c"], range(3))
    seen = _seen(_judged({"gold": [1.0, 0.0]}), data=data, sample=[0, 1, 2])
    (fault,) = rewards_are_given.check(seen)
    assert (fault.severity, fault.message) == (
        "not-checked",
        "reward mine was called for 2 of the 3 examined rows",
    )


@pytest.mark.stack
def test_prompts_with_their_answer_are_named_in_any_message() -> None:
    sums = [(f"{n}+{n}=", str(2 * n)) for n in range(10, 18)]

    def said(make: Callable[[str, str], Any]) -> list[str]:
        seen = _with_rows(prompts=[make(*one) for one in sums], solution=[answer for _, answer in sums])
        return [f"{fault.severity}: {fault.message}" for fault in prompts_hold_no_answers.check(seen)]

    def asked(question: str, *before: tuple[str, str]) -> list[dict[str, str]]:
        messages = [*before, ("user", question)]
        return [{"role": role, "content": content} for role, content in messages]

    assert said(lambda question, _: question) == []
    assert said(lambda question, _: asked(question, ("system", "Add."))) == []
    told = ["warning: dataset: 8 of 8 prompts contain their right answer"]
    assert said(lambda question, answer: f"{question} {answer}") == told
    assert said(lambda question, answer: asked(question, ("system", f"The key is {answer}."))) == told
    assert said(lambda question, answer: asked(question, ("user", question), ("assistant", answer))) == told
    examples = "Add as in 12+12=\n24, in digits alone, and write nothing else."
    shown = ["note: dataset: the examples in every prompt contain 1 of the 8 rows"]
    assert said(lambda question, _: asked(question, ("system", examples))) == shown


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


def _on(tokenizer: Any, prompts: list[Any]) -> list[str]:
    data = Rows("dataset", len(prompts), None, prompts, range(len(prompts)))
    seen = _seen(data=data, sample=[], tokenizer=tokenizer)
    seen.plan.arguments = SimpleNamespace(GRPOConfig={})  # type: ignore[misc]
    return [fault.message for fault in prompts_are_rendered_once.check(seen)]


@pytest.mark.stack
def test_prompts_that_were_rendered_before_are_named() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    tokens = Tokenizer(models.WordLevel({"<s>": 0, "<|user|>": 1, "<unk>": 2}, unk_token="<unk>"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    tokens.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    words = {"bos_token": "<s>", "unk_token": "<unk>", "extra_special_tokens": ["<|user|>"]}
    adds: Any = PreTrainedTokenizerFast(tokenizer_object=tokens, **words)
    adds.chat_template = "<s>{% for m in messages %}<|user|>{{ m.content }}{% endfor %}"
    assert _on(adds, ["1+1=", "the token <s> of Llama"]) == []
    assert _on(adds, ["1+1=", "<s> 1+1="]) == ["dataset: 1 of 2 prompts begin with two '<s>'"]
    tokens.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    adds_none: Any = PreTrainedTokenizerFast(tokenizer_object=tokens, **words)
    assert _on(adds_none, ["<s> 1+1="]) == [], "here the prompt alone has it"

    def said(content: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": content}]

    assert _on(adds, [said("1+1="), said("a <unk> word")]) == []
    assert _on(adds, [said("1+1="), said("2+2="), said("What does [INST] mean?")]) == []
    assert _on(adds, [said("[INST] 1+1= [/INST]")] * 2) == ["dataset: messages of 2 of 2 prompts contain '[INST]'"]
    assert _on(adds, [said("1+1="), said("<|user|>1+1=")]) == ["dataset: messages of 1 of 2 prompts contain '<|user|>'"]


@pytest.mark.stack
def test_values_that_a_file_shows_differently_are_named(tmp_path: Path) -> None:
    from datasets import Dataset, load_dataset

    def found(rows: Any, path: str, **templates: Any) -> list[str]:
        seen = _seen(data=Rows("dataset", len(rows), rows, ["a"] * len(rows), range(len(rows))))
        seen.plan.data = SimpleNamespace(path=path, **{"prompt": "{{ q }}", "columns": {}, **templates})  # type: ignore[misc]
        seen.plan.rewards = [SimpleNamespace(target="exact_match")]  # type: ignore[misc, list-item]
        return [fault.message for fault in values_are_read_as_written.check(seen)]

    def of_csv(text: str, **columns: str) -> list[str]:
        file = tmp_path / f"{len(text)}.csv"
        file.write_text(text)
        return found(load_dataset("csv", data_files=str(file), split="train"), str(file), columns=columns)

    assert of_csv("q,code\na,107\nb,0\n") == []
    assert of_csv("q,code\na,007x\nb,0123\n") == [], "a text among them keeps the zeros"
    assert of_csv("q,code\na,107\nb,007\n") == [
        "column code has 007 in row 2, which is read as a number without its zeros"
    ]
    assert of_csv("q,price\na,1.5\nbc,2.50\n") == [], "exact_match compares another column"
    assert of_csv("q,price\na,1.5\nbcd,2.50\n", solution="{{ price }}") == [
        "column price has 2.50 in row 2, which is read as a number without its zeros"
    ]
    assert of_csv("q,price\na,1.5\nbcde,20.0\n", solution="{{ price }}") == []
    texts = Dataset.from_dict({"q": ["a", "b"], "hint": ["false", "true"], "is_hard": [True, False]})
    for test in ("{% if hint %}", "{% if not hint and q %}", "{{ 'x' if hint is false }}"):
        told = found(texts, "rows.jsonl", columns={"solution": test})
        assert told == ["the template tests hint, whose values are texts such as 'false'"], test
    for test in ("{% if hint == 'false' %}", "{% if is_hard %}", "{% if q %}", "{{ hint }}"):
        assert found(texts, "rows.jsonl", prompt=test) == []
