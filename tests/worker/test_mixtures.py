"""A mixture draws its sources in the order of the whole run, and each is judged by its own rewards."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from resumed_runs import killed_after, trained_lines, weights
from worker_runs import Changes, Trained, events, planned_data, planned_reward

from grpo_recipes.contract.files.regular_file import file_sha256
from grpo_recipes.contract.plan import Data, Reward
from grpo_recipes.contract.plan_machine import Batch
from grpo_recipes.worker._shared.replacing import Refused

pytestmark = pytest.mark.stack

PER_STEP = 4


def source(name: str, **changes: Any) -> Data:
    return Data(**planned_data(Path("rows.jsonl"), source_name=name, **changes))


def plan_of(*sources: Data, steps: int = 10, seed: int = 7, rounds: int = 0, **batch: Any) -> Any:
    cut = {"micro_batch": 8, "accumulation": 2, "steps_per_generation": 2, "num_generations": 4, "prompts": PER_STEP}
    iterations = batch.pop("num_iterations", 1)
    given = {"max_steps": steps, "seed": seed, "num_iterations": iterations}
    arguments = SimpleNamespace(GRPOConfig=given)
    return SimpleNamespace(sources=sources, batch=Batch(**cut | batch), arguments=arguments, resample_groups=rounds)


def drawn(plan: Any, *sizes: int, kind: str = "") -> list[tuple[int, int]]:
    """Source and row of each prompt of a run."""
    from grpo_recipes.worker.data.mixture import draw_rows

    starts = [0, *accumulate(sizes)]
    found = []
    for place in draw_rows(plan, sizes, kind).tolist():
        index = max(one for one in range(len(sizes)) if starts[one] <= place)
        found.append((index, place - starts[index]))
    return found


def test_the_order_is_the_same_one_everywhere() -> None:
    # Of these very numbers: another release of Python or numpy that gave others would train another experiment.
    found = drawn(plan_of(source("math", weight=3.0), source("code", weight=1.0), steps=4), 5, 3)
    assert "".join(str(index) for index, _ in found) == "0010001000100010"
    assert [row for index, row in found if index == 0] == [2, 0, 1, 3, 4, 4, 1, 0, 2, 3, 3, 2]
    assert [row for index, row in found if index == 1] == [0, 1, 2, 2]


def test_each_stretch_has_the_shares_to_within_a_prompt() -> None:
    parts = (5.0, 3.0, 1.5)
    found = drawn(plan_of(*(source(f"s{part}", weight=part) for part in parts), steps=100), 50, 70, 9)
    counts: Counter[int] = Counter()
    for length, (index, _) in enumerate(found, 1):
        counts[index] += 1
        for one, part in enumerate(parts):
            assert abs(counts[one] - length * part / sum(parts)) <= 1.5
    assert len(found) == 400


def test_without_weights_each_row_counts_the_same() -> None:
    counts = Counter(index for index, _ in drawn(plan_of(source("a"), source("b"), steps=100), 300, 100))
    assert counts == {0: 300, 1: 100}


def test_a_source_begins_anew_in_another_order_when_all_its_rows_were_drawn() -> None:
    rows = [row for index, row in drawn(plan_of(source("a", weight=1.0), source("b", weight=1.0)), 10, 99) if not index]
    assert sorted(rows[:10]) == sorted(rows[10:]) == list(range(10))
    assert rows[:10] != rows[10:]


def test_a_longer_run_begins_with_a_shorter_one_and_another_seed_does_not() -> None:
    sources = source("a", weight=2.0), source("b", weight=1.0, from_step=4), source("c", weight=0.3)
    short, long = (drawn(plan_of(*sources, steps=steps), 7, 50, 20) for steps in (9, 30))
    assert long[: len(short)] == short
    assert drawn(plan_of(*sources, steps=9, seed=8), 7, 50, 20) != short


def test_a_source_that_joins_leaves_the_order_of_the_others() -> None:
    two, three = [source("a", weight=1.0), source("b", weight=1.0)], source("c", weight=1.0)
    before = [row for index, row in drawn(plan_of(*two), 30, 30) if index == 1]
    after = [row for index, row in drawn(plan_of(*two, three), 30, 30, 30) if index == 1]
    assert before[: len(after)] == after


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        pytest.param({}, 3, id="a generation for each step"),
        pytest.param({"steps_per_generation": 4, "prompts": 8}, 4, id="a generation for two steps"),
        pytest.param({"num_iterations": 4}, 2, id="a generation for four steps"),
    ],
)
def test_a_source_is_drawn_from_its_step_on(changes: dict[str, int], first: int) -> None:
    plan = plan_of(source("a", weight=1.0), source("b", weight=1.0, from_step=4), steps=12, **changes)
    found = [index for index, _ in drawn(plan, 9, 9)]
    each = plan.batch.prompts
    fed = plan.batch.steps_per_generation * plan.arguments.GRPOConfig["num_iterations"] // 2
    generations = [found[start : start + each] for start in range(0, len(found), each)]
    begins = next(number for number, one in enumerate(generations) if 1 in one)
    assert begins * fed + 1 >= 4 > (begins - 1) * fed + 1
    assert begins == -(-3 // fed), first
    assert all(Counter(one) == {0: each // 2, 1: each // 2} for one in generations[begins:])


@pytest.mark.parametrize("count", [1, 4, 7, 40])
def test_the_rule_knows_which_sources_are_drawn(count: int) -> None:
    from grpo_recipes.rules.sources_make_one_mixture import _is_drawn
    from grpo_recipes.worker.data.mixture import _stretch

    for parts in ([1.0, 1.0], [3.0, 1.0], [1.0, 9.0, 0.3], [100.0, 0.5], [1e9, 1e-9, 2.0], [1.0] * 6):
        sources, active = [source("a", weight=part) for part in parts], range(len(parts))
        drawn = set(_stretch(sources, [9] * len(parts), active, count).tolist())
        assert {one for one in active if _is_drawn(one, parts, [True] * len(parts), count)} == drawn, parts


def test_a_source_that_keeps_its_order_keeps_it() -> None:
    plan = plan_of(source("a", weight=1.0, in_order=True), source("b", weight=1.0), steps=6)
    assert [row for index, row in drawn(plan, 5, 9) if index == 0] == [0, 1, 2, 3, 4] * 2 + [0, 1]


def test_further_prompts_are_of_the_same_sources_and_in_the_same_places_of_a_longer_run() -> None:
    sources = source("a", weight=1.0), source("b", weight=1.0, from_step=3)
    short, long = (drawn(plan_of(*sources, steps=steps, rounds=2), 9, 9, kind="further") for steps in (4, 8))
    assert len(short) == 4 * PER_STEP * 2
    assert long[: len(short)] == short
    assert {index for index, _ in short[: 2 * PER_STEP * 2]} == {0}
    assert Counter(index for index, _ in short[2 * PER_STEP * 2 :]) == {0: PER_STEP * 2, 1: PER_STEP * 2}


def test_a_further_prompt_is_none_of_its_generation_while_its_source_has_others() -> None:
    plan = plan_of(source("a", weight=1.0), source("b", weight=1.0, in_order=True), steps=9, rounds=3)
    main, further = (drawn(plan, 8, 5, kind=kind) for kind in ("", "further"))
    for generation in range(9):
        own = main[generation * PER_STEP :][:PER_STEP]
        rows = own + further[generation * PER_STEP * 3 :][: PER_STEP * 3]
        of_a, of_b = ([row for index, row in rows if index == one] for one in (0, 1))
        assert sorted(of_a) == list(range(8)), "two of its own, and all others"
        assert len(of_b) == 8
        assert set(of_b[:5]) == set(range(5)), "all five before one comes again"


def mixed(*columns: dict[str, list[Any]]) -> Any:
    from datasets import Dataset

    from grpo_recipes.worker.data.mixture import mix

    sources = [source(name, weight=1.0) for name in ("math", "code")]
    return mix(plan_of(*sources, steps=1), [Dataset.from_dict(one) for one in columns])


def test_columns_that_a_source_lacks_are_none() -> None:
    rows, told = mixed({"prompt": ["p", "q"], "solution": ["1", "2"]}, {"prompt": ["r"], "tests": [["t"]]})
    assert told == "4 prompts are drawn: 2 of the 2 rows of math, 2 of the 1 rows of code"
    assert {row["prompt"]: (row["solution"], row["tests"]) for row in rows} == {
        "p": ("1", None),
        "q": ("2", None),
        "r": (None, ["t"]),
    }


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        pytest.param(
            ({"prompt": ["p"], "answer": [1]}, {"prompt": ["q"], "answer": ["1"]}),
            "datasets: column answer is int64 in math, string in code",
            id="a column of two kinds",
        ),
        pytest.param(
            ({"prompt": ["p"]}, {"prompt": [[{"role": "user", "content": "q"}]]}),
            "datasets: the prompts of math and code have different types",
            id="texts and messages",
        ),
    ],
)
def test_columns_have_values_of_one_kind(columns: tuple[dict[str, list[Any]], ...], message: str) -> None:
    with pytest.raises(Refused) as raised:
        mixed(*columns)
    assert raised.value.findings[0].message == message


def judge_of_math() -> Reward:
    return Reward(**planned_reward("mine.py:mine", kind="python", name="mine") | {"not_of": ("code",)})


def loaded(reward: Reward, text: str, folder: Path, look: Any = None) -> Callable[..., Any]:
    from grpo_recipes.worker.user_code.reward_functions import load_rewards

    file = folder / f"{folder.name}.py"  # a process loads a name once
    file.write_text(text)
    pinned = replace(reward, target=f"{file.name}:mine", sha256=file_sha256(file))
    (function,) = load_rewards((pinned,), folder, look)
    assert not isinstance(function, str)

    def call(**given: Any) -> Any:
        found = function(**given)
        return asyncio.run(found) if asyncio.iscoroutine(found) else found

    return call


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_reward_sees_the_rows_of_its_sources_alone(kind: str, tmp_path: Path) -> None:
    text = f"{kind} mine(completions, solution, others, **kwargs):\n"
    text += "    assert len(completions) == len(solution) < 3 and len(others) == 7\n"
    text += "    return [float(one == two) for one, two in zip(completions, solution)]\n"
    mine = loaded(judge_of_math(), text, tmp_path)
    given = {"completions": ["1", "x", "2"], "solution": ["1", None, "1"], "others": list(range(7))}
    found = mine(source_name=["math", "code", "math"], **given)
    assert found == [1.0, None, 0.0]
    assert mine(source_name=["code"] * 3, **given) == [None] * 3


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_what_a_reward_logs_lands_on_the_rows_that_it_judges(kind: str, tmp_path: Path) -> None:
    text = f"{kind} mine(completions, log_extra, **kwargs):\n"
    text += "    log_extra('note', [completion + '!' for completion in completions])\n"
    text += "    for completion in completions:\n"
    text += "        log_extra('one by one', [completion])\n"
    text += "    log_extra('of three', ['x', 'y', 'z'])\n"
    text += "    return [1.0] * len(completions)\n"
    mine = loaded(judge_of_math(), text, tmp_path)
    steps: list[dict[str, list[Any]]] = []

    def step(*names: str) -> dict[str, list[Any]]:
        steps.append({})
        log_extra = lambda column, values: steps[-1].setdefault(column, []).extend(values)  # noqa: E731
        mine(completions=["a", "b", "c"], source_name=list(names), log_extra=log_extra)
        return steps[-1]

    assert step("code", "code", "code") == {}, "not called yet"
    assert step("math", "code", "math") == {
        "note": ["a!", None, "c!"],
        "one by one": ["a", None, "c"],
        "of three": ["x", "y", "z"],
    }
    assert step("code", "code", "code") == {name: [None] * 3 for name in ("note", "one by one", "of three")}
    assert step("math", "math", "math")["note"] == ["a!", "b!", "c!"]


def test_a_wrong_length_is_that_of_the_rows_that_the_reward_judges(tmp_path: Path) -> None:
    from grpo_recipes.worker.user_code.reward_call import refuse_no_numbers

    text = "def mine(completions, **kwargs):\n    return ['x' for one in completions]\n"
    mine = loaded(judge_of_math(), text, tmp_path, refuse_no_numbers)
    with pytest.raises(Refused) as raised:
        mine(prompts=["of code", "of math"], completions=["a", "b"], source_name=["code", "math"])
    told = repr(raised.value.findings)
    assert "of math" in told and "of code" not in told


def sources_of(sums: Path, folder: Path, **more: Any) -> list[Changes]:
    """Two sources of sums, each with its name in a column as the planner puts it there."""
    other = folder / "words.jsonl"
    rows = [{"word": f"{number}*{number}=", "length": number} for number in range(2, 12)]
    other.write_text("".join(json.dumps(row) + "\n" for row in rows))
    math = {"columns": {"solution": "{{ answer }}", "source_name": "math"}, "source_name": "math", "weight": 1.0}
    code = {"columns": {"source_name": "code"}, "source_name": "code", "weight": 1.0, "prompt": "{{ word }}"}
    return [
        planned_data(sums, sha256=file_sha256(sums), filter="{{ '7' not in question }}", **math),
        planned_data(other, sha256=file_sha256(other), **code, **more),
    ]


def mixture(make_plan: Callable[..., Changes], sources: list[Changes], mode: str = "full", **changes: Any) -> Changes:
    rewards = [
        planned_reward("regex_match", name="digits", kwargs={"pattern": r"\d\d", "full": False}),
        planned_reward("exact_match", name="solved", not_of=["code"]),
    ]
    steps = {"max_steps": 8, "save_strategy": "steps", "save_steps": 4, "shuffle_dataset": False}
    arguments = {**steps, "reward_weights": [1.0, 1.0], **changes.pop("arguments", {})}
    plan = make_plan(
        mode, arguments=arguments, data=sources[0], sources=sources, rewards=rewards, kept_completions=16, **changes
    )
    plan["expect"]["arguments"] = {}
    return plan


def prompts(folder: Path) -> list[tuple[int, str]]:
    """The prompts in their order, each once for its group, with their steps."""
    lines = [json.loads(line) for line in (folder / "completions.jsonl").read_text().splitlines()]
    return [(line["step"], prompt) for line in lines for prompt in dict.fromkeys(row["prompt"] for row in line["rows"])]


def test_a_mixture_goes_on_from_its_checkpoint_as_if_nothing_had_happened(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], sums: Path, tmp_path: Path
) -> None:
    plan = mixture(make_plan, sources_of(sums, tmp_path, from_step=3), resample_groups=2)
    (tmp_path / "whole").mkdir()
    whole = trained(plan, folder=tmp_path / "whole")
    assert whole.exit_code == 0, whole.output
    assert "16 prompts are drawn: 10 of the " in whole.output
    again = killed_after(whole.folder, 4, tmp_path / "again")
    done = trained(plan, folder=again, resume=True)

    assert done.exit_code == 0, done.output
    assert trained_lines(again) == trained_lines(whole.folder)
    assert weights(again) == weights(whole.folder) != {}
    assert prompts(again) == prompts(whole.folder)
    assert done.record["verified"] == whole.record["verified"]
    steps = list(events(whole.folder, "step"))
    assert ["sources/code/reward" in line for line in steps[:2]] == [False] * 2
    assert any("sources/code/reward" in line for line in steps[2:])


def test_two_processes_draw_and_judge_the_same_prompts(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], sums: Path, tmp_path: Path
) -> None:
    sources = sources_of(sums, tmp_path)
    alone, together = (mixture(make_plan, sources, "lora", arguments={"max_steps": 3}) for _ in range(2))
    together["arguments"]["GRPOConfig"]["per_device_train_batch_size"] = 8
    together["world"].update(num_processes=2, strategy="ddp")
    together["expect"]["world_size"] = 2
    one, two = trained(alone), trained(together, ranks=2)

    assert two.exit_codes == [0, 0], two.output
    assert one.exit_code == 0, one.output
    assert one.record["verified"] == two.record["verified"]
    assert {"datasets.math.kept.rows", "datasets.code.rows"} <= one.record["verified"].keys()
    own, shared = (list(events(run.folder, "step")) for run in (one, two))
    for line, other in zip(own, shared, strict=True):
        of_sources = [name for name in line if name.startswith("sources/")]
        assert sorted(of_sources) == sorted(name for name in other if name.startswith("sources/"))
        assert len(of_sources) == 4
        for each in (line, other):  # one prompt of each source
            means = each["sources/math/reward"], each["sources/code/reward"]
            assert sum(means) / 2 == pytest.approx(each["reward"], abs=1e-6)
            equal = each["sources/math/groups_without_variance"], each["sources/code/groups_without_variance"]
            assert sum(equal) / 2 == each["groups_without_variance"]
    # The first process has the first prompt of each step, and keeps its completions alone.
    assert prompts(two.folder) == prompts(one.folder)[::2]
