"""Right answers are found by what rewards read, and guesses count only if a reward pays them."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_forms_of_answers import Table

from grpo_recipes.contract.plan import Reward
from grpo_recipes.contract.plan_machine import Batch
from grpo_recipes.worker.preflight._shared.hosted import Notes, of_event
from grpo_recipes.worker.preflight._shared.reward_seen import Call, RewardSeen
from grpo_recipes.worker.preflight._shared.seen import Options, Rows, Seen
from grpo_recipes.worker.preflight.checks import rewards_teach
from grpo_recipes.worker.preflight.golds import columns_read, find_gold
from grpo_recipes.worker.preflight.guesses import judge_guess, unknown_names, untried
from grpo_recipes.worker.preflight.host import Host, Request
from grpo_recipes.worker.preflight.trials import trials
from grpo_recipes.worker.user_code.reward_functions import load_rewards

OPTIONS = Options(4, 1.0, None, 1, None, 3.0, 1, True, Batch(32, 4, 4, 8, 16))
JSON = "Extract name and age as JSON: "


def _reward(folder: Path, parameters: str, body: str = "pass", **kwargs: object) -> Reward:
    (folder / "mine.py").write_text(f"def mine({parameters}):\n    {body}\n")
    return Reward("python", "mine", "mine.py:mine", 1.0, kwargs)


def _rows(*prompts: str, **columns: list[Any]) -> list[dict[str, Any]]:
    each = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [{"prompt": prompt, **row} for prompt, row in zip(prompts, each, strict=True)]


def test_a_reward_reads_its_parameters_and_what_it_takes_from_its_keywords(tmp_path: Path) -> None:
    body = 'return kwargs["a"], kwargs.get("b", 1), kwargs.pop("c"), kwargs[x]'
    reward = _reward(tmp_path, "completions, item, scale=1, **kwargs", body, scale=2)
    assert columns_read(reward, tmp_path) == {"completions", "item", "a", "b", "c"}
    made = "class Judge:\n    def __call__(self, completions, total): ...\n\njudge = Judge()\n"
    (tmp_path / "mine.py").write_text(
        f"def _near(completions, item, width): ...\nnear = partial(_near, width=5)\n{made}"
    )
    assert columns_read(Reward("python", "near", "mine.py:near", 1.0), tmp_path) == {"completions", "item"}
    assert columns_read(Reward("python", "judge", "mine.py:judge", 1.0), tmp_path) == {"completions", "total"}
    assert "solution" in columns_read(Reward("shipped", "accuracy", "accuracy", 1.0), None)
    assert columns_read(Reward("python", "mine", "gone.py:mine", 1.0), tmp_path) == set()


@pytest.mark.parametrize(
    ("parameters", "rows", "expected"),
    [
        ("reversed", _rows("ab", "cd", reversed=["ba", "dc"]), ("reversed", ["ba", "dc"], True)),
        ("answer", _rows("a", "b", solution=["1", "2"], answer=["3", "4"]), ("answer", ["3", "4"], False)),
        ("item", _rows("a", "b", solution=["1", "2"], item=["x", "y"]), ("item", ["x", "y"], True)),
        ("count", _rows("Write 3 words.", "Write 4 words.", count=[3, 4]), None),
        ("tolerance", _rows("a", "b", tolerance=[0.1, 0.1]), None),
        ("tests", _rows("a", "b", tests=[["x"], ["y"]]), None),
        ("one, two", _rows("a", "b", one=["x", "y"], two=["z", "w"]), None),
        ("length", _rows("a", "b", label=["x", "y"], length=[1, 1]), ("label", ["x", "y"], False)),
        (
            "name, age",
            _rows(JSON + "Bo, 3", JSON + "Al, 4", name=["Bo", "Al"], age=[3, 4]),
            (None, ['{"name": "Bo", "age": 3}', '{"name": "Al", "age": 4}'], True),
        ),
    ],
)
def test_the_right_answer_is_what_a_reward_reads_and_no_prompt_has(
    tmp_path: Path, parameters: str, rows: list[dict[str, Any]], expected: tuple[Any, ...] | None
) -> None:
    gold = find_gold(rows, [], [_reward(tmp_path, f"completions, {parameters}, **kwargs")], tmp_path)
    assert (gold and (gold.reference, gold.texts, gold.is_guess)) == expected


def _judged(values: dict[str, float], weight: float = 1.0, column: str = "reversed") -> Seen:
    made = trials(_rows("ab", "cd", **{column: ["ba", "dc"]}), [], (), 0)
    texts = {"gold": ["ba", "dc"], "another row's gold": ["dc", "ba"], **made.texts}
    made = type(made)(texts, f"column {column}", column, is_guess=True)
    call = Call("all", "own", "values", [(0, case) for case in values], [*values.values()])
    reward = RewardSeen(0, "mine", "python", weight, (call,), ("completions", column))
    plan: Any = SimpleNamespace(rewards=[SimpleNamespace(name="mine", kind="python", target="", kwargs={})])
    data: Any = SimpleNamespace(rows=SimpleNamespace(column_names=["prompt", column]))
    seen = Seen(plan, OPTIONS, data=data, rewards=[reward], gold=made.gold, reference=column, trial_texts=texts)
    judge_guess(seen, made)
    return seen


PAID = {"gold": 1.0, "empty": 0.0, "words": 0.0, "noise": 0.0, "another row's gold": 0.5}
LEAST = {"gold": 0.0, "empty": 1.0, "words": 9.0, "noise": 2.0, "another row's gold": 0.7}


def test_a_guess_counts_if_a_reward_pays_it_most() -> None:
    assert _judged(PAID).reference == _judged(LEAST, weight=-1.0).reference == "reversed"
    for values in (LEAST, dict.fromkeys(PAID, 0.0), {**PAID, "words": 2.0}):
        seen = _judged(values)
        assert (seen.gold, seen.reference, "gold" in seen.trial_texts) == ("", None, False)


def test_a_reward_that_likes_its_guess_least_is_named() -> None:
    def named(seen: Seen) -> list[str]:
        seen.plan.all_environments = []  # type: ignore[misc, assignment]
        return [fault.message for fault in rewards_teach.check(seen)]

    message = "reward mine, with weight 1, likes the text of column reversed least of all"
    assert named(_judged(LEAST)) == [message]
    assert (
        named(_judged(LEAST, column="rejected")) == named(_judged(PAID)) == named(_judged(PAID | {"gold": 0.2})) == []
    )


TOTALS = _rows("1+1", "2+3", total=[2, 5])
COMPARES = {
    "the text": "[float(c == str(t)) for c, t in zip(completions, total)]",
    "a number": "[float(c == t) for c, t in zip(completions, total)]",
    "a number, and pays words": "[float(c == t) + 0.1 * bool(c) for c, t in zip(completions, total)]",
    "an int with a text": "[float(c.isdecimal() and int(c) == t) for c, t in zip(completions, total)]",
    "a keyword": "[float(c == t) for c, t in zip(completions, kwargs['total'])]",
    "nothing": "[0.0 for _ in completions]",
}


class RowTable(Table):
    """Columns that give a row by its number, as those of `datasets`."""

    def __getitem__(self, key: Any) -> Any:
        return {name: self[name][key] for name in self} if isinstance(key, int) else super().__getitem__(key)


def _hosted(folder: Path, reward: Reward, rows: list[dict[str, Any]]) -> Seen:
    """What preflight knows of a reward that it has called."""
    made = trials(rows, [], (reward,), 0, (), folder)
    ids = {case: [[0] for _ in texts] for case, texts in made.texts.items()}
    passed = ("prompts", "completions", "completion_ids")
    request = Request(reward, str(folder), rows, made.texts, ids, False, 4, passed, ("prompt",), 5.0, {})
    file = (folder / "mine.py").rename(folder / f"{folder.name}.py")  # a module of its own in each test
    reward = replace(reward, target=f"{file.name}:mine", sha256=hashlib.sha256(file.read_bytes()).hexdigest())
    (function,) = load_rewards((reward,), folder)
    with (folder / "events").open("w") as events, (folder / "trace").open("w") as trace:
        Host(request, function, Notes(events, trace, 5.0)).run()
    lines = map(json.loads, (folder / "events").read_text().splitlines())
    calls = tuple(of_event(Call, event) for event in lines if event["event"] == "called")
    reads = tuple(columns_read(reward, folder) - {"kwargs"})
    plan: Any = SimpleNamespace(rewards=[reward], all_environments=[], arguments=SimpleNamespace(GRPOConfig={}))
    columns: Any = RowTable({name: [row[name] for row in rows] for name in rows[0]})
    data = Rows("dataset", len(rows), columns, [row["prompt"] for row in rows], range(len(rows)))
    seen = Seen(plan, OPTIONS, data=data, sample=[*range(len(rows))], gold=made.gold, reference=made.reference)
    seen.rewards = [RewardSeen(0, reward.name, "python", 1.0, calls, reads)]
    seen.trial_texts = made.texts
    judge_guess(seen, made)
    return seen


@pytest.mark.parametrize(
    ("compares", "rows", "says"),
    [
        ("the text", TOTALS, None),
        ("nothing", TOTALS, None),
        ("a number", TOTALS, "total is the number 2, which equals no text"),
        ("a number, and pays words", TOTALS, "total is the number 2, which equals no text"),
        ("a keyword", TOTALS, "total is the number 2, which equals no text"),
        ("an int with a text", TOTALS, None),
        ("an int with a text", _rows("1+1", "2+3", total=["2", "5"]), "total is the text '2', which equals no number"),
        ("a number", _rows("1+1", "2+3", total=[2.5, 5.5]), "total is the number 2.5, which equals no text"),
    ],
)
def test_a_text_that_is_compared_with_a_number_is_named(
    tmp_path: Path, compares: str, rows: list[dict[str, Any]], says: str | None
) -> None:
    names = "completions" if compares == "a keyword" else "completions, total"
    reward = _reward(tmp_path, f"{names}, **kwargs", f"return {COMPARES[compares]}")
    faults = [*rewards_teach.check(_hosted(tmp_path, reward, rows))]
    assert [fault.rule for fault in faults] == ([""] if says else []), faults
    assert says is None or says in str(faults[0].fix)
    assert all("it pays them if total is passed as " in fault.because[-1] for fault in faults)


@pytest.mark.parametrize(
    ("parameters", "body", "unknown"),
    [
        ("completions", "kwargs.get('ground_truth')", ["ground_truth"]),
        ("completions, answer=None", "answer", ["answer"]),
        ("completions, tolerance=0.1", "kwargs.get('trainer_state')", []),
        ("completions, tolerance=0.1", "kwargs.get('solution', kwargs.get('answer'))", None),
    ],
)
def test_a_name_that_no_row_has_is_known(tmp_path: Path, parameters: str, body: str, unknown: list[str] | None) -> None:
    reward = _reward(tmp_path, f"{parameters}, **kwargs", f"return {body}")
    names = tuple(word.partition("=")[0] for word in parameters.split(", "))
    seen = Seen(SimpleNamespace(rewards=[reward]), OPTIONS, reference="solution")  # type: ignore[arg-type]
    seen.rewards = [RewardSeen(0, reward.name, "python", 1.0, (), names)]
    row = {"prompt": "a", "solution": "b"}
    assert unknown_names(seen, row, tmp_path).get(reward.name) == unknown


def test_what_no_right_answer_is_known_for_is_listed(tmp_path: Path) -> None:
    reward = _reward(tmp_path, "completions, name, age, **kwargs")
    seen = Seen(SimpleNamespace(rewards=[reward]), OPTIONS)  # type: ignore[arg-type]
    row = json.loads('{"prompt": "a", "name": "b", "age": 1, "city": "c"}')
    assert untried(seen, row, tmp_path) == ["mine with right answers: it reads age, name, and none is known to be one"]
    seen.gold = "column name as it is"
    assert untried(seen, row, tmp_path) == []
