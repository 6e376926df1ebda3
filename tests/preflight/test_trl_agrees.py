"""What preflight says of TRL is what the installed TRL does."""

import contextlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grpo_recipes.contract.plan_machine import Batch
from grpo_recipes.worker.preflight._shared.seen import Options
from grpo_recipes.worker.preflight._shared.trl_source import drops_incomplete_generations, names_from_trl
from grpo_recipes.worker.user_code.reward_call import call_reward

pytestmark = pytest.mark.stack

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def asked(warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What in_trl.py finds out."""
    folder = tmp_path_factory.mktemp("asked")
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    model = ROOT / "recipes" / "quickstart" / "model"
    words = [warm_python / "python", "-Xwarm", Path(__file__).parent / "in_trl.py", model, folder]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=500, cwd=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_reward_gets_the_names_that_were_read_from_the_source(asked: dict[str, Any]) -> None:
    assert sorted(asked["names"]) == sorted({*names_from_trl(), "solution"})


def test_each_kind_of_answer_is_taken_as_trl_takes_it(asked: dict[str, Any]) -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    from in_trl import ANSWERS

    for kind, answer in ANSWERS.items():
        outcome = call_reward(lambda make=answer: make(8), {}, 8, "", contextlib.nullcontext())
        ours = outcome["values"] if outcome["kind"] == "values" else "raises"
        assert ours == asked["answers"][kind], (kind, outcome)


def test_fewer_rows_than_a_generation_are_no_step_and_no_error(asked: dict[str, Any]) -> None:
    assert asked["steps of too few rows"] == 0
    assert "max_steps must be set to a positive value" in str(asked["epochs of too few rows"])
    assert drops_incomplete_generations()


def _options(prompts: int, micro_batches: int, accumulation: int, iterations: int) -> Options:
    return Options(
        rows=1,
        time_limit=1.0,
        memory_limit=None,
        seed=0,
        max_steps=None,
        epochs=1.0,
        num_iterations=iterations,
        shuffled=True,
        batch=Batch(prompts * 4 // micro_batches, accumulation, micro_batches, num_generations=4, prompts=prompts),
    )


def test_steps_of_an_epoch_are_those_of_the_trainer(asked: dict[str, Any]) -> None:
    assert asked["steps of an epoch"] == _options(2, 1, 1, 2).steps_per_epoch(5) == 4
    for given, length in asked["lengths"].items():
        rows, prompts, iterations, micro_batches = map(int, given.split())
        micro_steps = _options(prompts, micro_batches, 1, iterations).steps_per_epoch(rows)
        assert micro_steps * prompts * 2 == length, "each micro-step sees every prompt of its generation twice"


def test_an_infinite_reward_leaves_its_group_without_a_gradient(asked: dict[str, Any]) -> None:
    finite, infinite = asked["gradients"]
    assert finite > 0
    assert infinite == 0
    assert math.isinf(call_reward(lambda: [1e39], {}, 1, "", contextlib.nullcontext())["values"][0])


def test_null_and_an_empty_list_of_messages_are_no_prompts(asked: dict[str, Any]) -> None:
    assert asked["empty list"] == "IndexError"
    assert asked["null prompt"] != "none"


def test_a_tokenizer_without_an_end_token_cannot_train(asked: dict[str, Any]) -> None:
    assert asked["no end token"] != "none"
