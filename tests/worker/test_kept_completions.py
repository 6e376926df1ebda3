"""Some completions of each step are in completions.jsonl: which ones the seed says, and what is written of them."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_runs import Changes, Trained, events, planned_reward

from grpo_recipes.contract.metrics import COMPLETIONS_FILE, read_all

pytestmark = pytest.mark.stack

ENDS = {"stop", "eos", "length"}
SAVES = {"save_strategy": "steps", "save_steps": 2}


def kept(folder: Path) -> list[Changes]:
    """The lines of the file."""
    return [dict(line) for line in read_all(str(folder / COMPLETIONS_FILE))]


def without_times(lines: list[Changes]) -> list[Changes]:
    return [{key: value for key, value in line.items() if key != "time"} for line in lines]


@pytest.fixture(scope="module")
def run(make_plan: Callable[..., Changes], trained: Callable[..., Trained]) -> Trained:
    """Four steps with two rewards, which are saved."""
    return trained(plan_of(make_plan, **SAVES))


def plan_of(make_plan: Callable[..., Changes], **arguments: Any) -> Changes:
    rewards = [
        planned_reward("regex_match", name="digits", weight=2.0, kwargs={"pattern": r"\d\d", "full": False}),
        planned_reward("completion_length", name="short", weight=0.5, kwargs={"max_characters": 9}),
    ]
    plan = make_plan(arguments={"max_steps": 4, "reward_weights": [2.0, 0.5], **arguments}, rewards=rewards)
    plan["expect"]["arguments"] = {}
    return plan


def test_each_step_has_as_many_as_the_plan_says(run: Trained) -> None:
    assert run.exit_code == 0, run.output
    lines = kept(run.folder)
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert all(line["event"] == "completions" and len(line["rows"]) == 4 for line in lines)
    for row in (row for line in lines for row in line["rows"]):
        assert set(row) == {"prompt", "completion", "rewards", "reward", "advantage", "tokens", "ended"}
        assert row["prompt"].endswith("=") and row["ended"] in ENDS and 0 < row["tokens"] <= 6
        assert set(row["rewards"]) == {"digits", "short"}
        assert row["reward"] == pytest.approx(2.0 * row["rewards"]["digits"] + 0.5 * row["rewards"]["short"], abs=1e-5)


def test_the_rewards_are_those_of_their_completion(run: Trained) -> None:
    rows = [row for line in kept(run.folder) for row in line["rows"]]
    assert {has_two_digits(row) for row in rows} == {True, False}, "a tiny model writes both kinds"
    assert all(row["rewards"]["digits"] == has_two_digits(row) for row in rows)


def has_two_digits(row: Changes) -> bool:
    return re.search(r"\d\d", row["completion"]) is not None


def test_training_is_the_same_without_them(
    run: Trained, make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    without = trained({**plan_of(make_plan), "kept_completions": 0})
    assert without.exit_code == 0, without.output
    assert not (without.folder / COMPLETIONS_FILE).exists()
    losses = [[step["loss"] for step in events(one.folder, "step")] for one in (run, without)]
    assert losses[0] == losses[1] and len(losses[0]) == 4


def test_a_resumed_run_has_those_of_an_unbroken_one(
    run: Trained, make_plan: Callable[..., Changes], trained: Callable[..., Trained], tmp_path: Path
) -> None:
    again = tmp_path / "again"
    shutil.copytree(run.folder, again)
    shutil.rmtree(again / "checkpoints" / "checkpoint-4")
    with (again / COMPLETIONS_FILE).open("a") as end:
        end.write('{"event": "completions", "step": 9')  # killed while it wrote
    resumed = trained(plan_of(make_plan, **SAVES), folder=again, resume=True)
    assert resumed.exit_code == 0, resumed.output
    assert "completions.jsonl: 1 damaged line left out" in resumed.output
    assert without_times(kept(again)) == without_times(kept(run.folder))


def test_a_generation_for_several_steps_is_written_once(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    run = trained(plan_of(make_plan, per_device_train_batch_size=8, steps_per_generation=2))
    assert run.exit_code == 0, run.output
    assert [line["step"] for line in kept(run.folder)] == [1, 3]


def test_of_several_generations_for_a_step_one_is_written(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    run = trained(plan_of(make_plan, gradient_accumulation_steps=2, steps_per_generation=1, max_steps=2))
    assert run.exit_code == 0, run.output
    assert [(line["step"], len(line["rows"])) for line in kept(run.folder)] == [(1, 4), (2, 4)]


SECRET = "hf_" + "abcdefghij" * 3 + "klmn"


def test_a_secret_of_the_data_is_not_written(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"question": f"{SECRET} {n}+1=", "answer": "2"}) + "\n" for n in range(8)))
    plan = plan_of(make_plan)
    plan["data"] |= {"path": str(rows)}
    plan["arguments"]["GRPOConfig"]["max_steps"] = 1
    run = trained(plan)
    assert run.exit_code == 0, run.output
    text = (run.folder / COMPLETIONS_FILE).read_text()
    assert SECRET not in text and "<redacted> " in text


SAID = """
import json, os
from pathlib import Path

def said(completions, **kwargs):
    with Path(__file__).with_name(f"said-{os.environ['RANK']}.jsonl").open("a") as file:
        file.write(json.dumps([completion[0]["content"] for completion in completions]) + "\\n")
    return [float(len(completion[0]["content"])) for completion in completions]
"""


def test_the_first_process_writes_its_own(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], sha256_of_text: Callable[[str], str]
) -> None:
    """Two processes answer the same prompt with different random numbers."""
    weights = {"reward_weights": [2.0, 0.5, 1.0]}
    plan = plan_of(make_plan, per_device_train_batch_size=8, num_generations=16, max_steps=2, **weights)
    plan["rewards"].append(planned_reward("mine.py:said", kind="python", name="said", sha256=sha256_of_text(SAID)))
    plan["batch"].update(num_generations=16, prompts=1)
    plan["expect"]["world_size"] = 2
    plan["world"]["num_processes"] = 2
    run = trained(plan, user={"mine.py": SAID}, ranks=2)
    assert run.exit_codes == [0, 0], run.output
    files = [run.folder / "worker" / "user" / f"said-{rank}.jsonl" for rank in (0, 1)]
    first, second = ([json.loads(line) for line in file.read_text().splitlines()] for file in files)
    assert all(own != of_other for own, of_other in zip(first, second, strict=True))
    lines = kept(run.folder)
    assert [line["step"] for line in lines] == [1, 2]
    for line, texts in zip(lines, first, strict=True):
        assert {row["completion"] for row in line["rows"]} <= {*texts}
        assert all(row["rewards"]["digits"] == has_two_digits(row) for row in line["rows"])


@pytest.mark.parametrize(
    ("text", "room", "expected"),
    [
        pytest.param("short", 100, "short", id="whole"),
        pytest.param("a" * 50 + "z" * 50, 20, "a" * 10 + "\n[80 characters left out]\n" + "z" * 10, id="its ends"),
        pytest.param("é" * 20, 9, "éé\n[16 characters left out]\néé", id="whole letters"),
        pytest.param("\ud83d", 9, "?", id="half a letter"),
    ],
)
def test_a_long_text_keeps_both_ends(text: str, room: int, expected: str) -> None:
    from grpo_recipes.worker.completions.kept_completions import shortened

    assert shortened(text, room) == expected


EXTRA = """
def noted(completions, log_extra, **kwargs):
    values = [float(len(completion[0]["content"])) for completion in completions]
    log_extra("own column", [f"of {value}" for value in values])
    return values
"""


def test_columns_of_log_extra_are_kept_with_all_completions(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], sha256_of_text: Callable[[str], str]
) -> None:
    import pandas

    reward = planned_reward("mine.py:noted", kind="python", name="noted", path="/recipes/mine.py")
    reward["sha256"] = sha256_of_text(EXTRA)
    plan = make_plan(rewards=[reward], arguments={"log_completions": True, "max_steps": 2})
    run = trained(plan, user={"mine.py": EXTRA})
    assert run.exit_code == 0, run.output
    files = sorted((run.folder / "checkpoints" / "completions").iterdir())
    assert [file.name for file in files] == ["completions_00001.parquet", "completions_00002.parquet"]
    table = pandas.read_parquet(files[0])
    assert list(table["own column"]) == [f"of {value}" for value in table["noted"]]
    assert "own column" not in (run.folder / COMPLETIONS_FILE).read_text()
