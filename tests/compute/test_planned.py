"""Tokens and steps are counted as the trainer counts them."""

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import pytest
from support.plans import small_plan

from grpo_recipes.contract.plan import Batch, Data, Plan
from grpo_recipes.memory.compute import Flops, Work, flops_of, steps_of, tokens_of, work_of
from grpo_recipes.memory.layout import Layout
from grpo_recipes.memory.update import Adapter, Update
from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.stack.target import parse_target
from grpo_recipes.user_files.architecture import read_architecture
from grpo_recipes.user_files.model_config import read_model_config

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "recipes" / "quickstart.yaml"


def _plan(*overrides: str, gpus: str = "0") -> Plan:
    stack, _ = parse_target(f"tested,gpus={gpus}")
    assert stack is not None
    resolution = resolve(str(QUICKSTART), stack, overrides)
    assert not resolution.refused, [finding.message for finding in resolution.findings]
    return plan_of(resolution)


@pytest.mark.parametrize(
    ("overrides", "generated", "trained", "every", "passes"),
    [
        pytest.param((), 128 * 6, 128 * 16, 1.0, 0, id="as it is"),
        pytest.param(("launch.num_processes=2",), 128 * 6, 128 * 16, 1.0, 0, id="two processes share them"),
        pytest.param(("grpo.num_iterations=2",), 64 * 6, 128 * 16, 2.0, 1, id="trained on twice"),
        pytest.param(
            ("grpo.optimizer_steps_per_generation=4", "evaluation=null", "training.save_steps=100"),
            *(128 * 6, 128 * 16, 4.0, 1),
            id="a generation feeds four steps",
        ),
        pytest.param(("grpo.beta=0.04",), 128 * 6, 128 * 16, 1.0, 1, id="a reference scores them"),
    ],
)
def test_tokens_of_a_step(
    overrides: tuple[str, ...], generated: float, trained: int, every: float, passes: int
) -> None:
    plan = _plan(*overrides)
    assert tokens_of(plan, prompt=10) == (generated, trained)
    work = work_of(plan)
    assert (work.generation_every, work.scoring_passes) == (every, passes)


def _flops(**changes: object) -> Flops:
    """The operations of a step of an adapter on one process; changes: of its update, its layout or its work."""
    config = read_model_config("Qwen/Qwen2.5-1.5B")
    architecture = None if config is None else read_architecture(config)
    assert architecture is not None
    step = (
        Update(2, 2, None, Adapter(16, "all-linear", 4), True, "sdpa", 8, 512, 512, 8, "adamw_torch", "fused"),
        Layout("single", 1, "transformers", 64),
        Work(generation_every=1.0, iterations=1, scoring_passes=0, processes=1),
    )
    update, layout, work = (
        part._replace(**{name: value for name, value in changes.items() if name in part._fields}) for part in step
    )
    return flops_of(architecture, update, layout, work)


def test_a_generation_is_shared_out_among_its_steps() -> None:
    once, twice = _flops(), _flops(generation_every=2.0, iterations=2, scoring_passes=1)
    assert twice.generation == once.generation / 2
    assert once.scoring == 0 < twice.scoring
    assert twice.update == once.update


def test_checkpointing_computes_more_and_vllm_computes_with_the_merged_adapter() -> None:
    assert _flops(is_checkpointing=False).update < _flops().update
    assert _flops(generation="vllm_colocate").generation < _flops().generation


def test_processes_multiply_operations() -> None:
    assert _flops(processes=2).total() == 2 * _flops().total()


def _of_rows(rows: int | None, most: int | None, batch: Batch, **arguments: object) -> int | None:
    data = dataclasses.replace(
        Data("file", "/data", "json", None, "train", None, None, "standard", None, {}), rows=rows, max_rows=most
    )
    plan = small_plan(batch=batch, data=data)
    return steps_of(dataclasses.replace(plan, arguments=dataclasses.replace(plan.arguments, GRPOConfig=arguments)))


@pytest.mark.parametrize(
    ("rows", "most", "arguments", "steps"),
    [
        pytest.param(None, None, {"max_steps": 7}, 7, id="said"),
        pytest.param(None, None, {"num_train_epochs": 2.0}, None, id="rows that were not counted"),
        pytest.param(None, 40, {"num_train_epochs": 1.0}, None, id="at most so many rows, perhaps fewer"),
        pytest.param(43, None, {"num_train_epochs": 1.0}, 10, id="the last three rows fill no generation"),
        pytest.param(43, 20, {"num_train_epochs": 1.0}, 5, id="the first rows alone"),
        pytest.param(43, None, {"num_train_epochs": 1.5}, 15, id="one and a half times"),
        pytest.param(43, None, {"num_train_epochs": 1.0, "num_iterations": 3}, 30, id="each three times"),
        pytest.param(43, None, {"max_steps": -1}, 30, id="three epochs, as transformers does"),
    ],
)
def test_steps_of_the_run(rows: int | None, most: int | None, arguments: dict[str, object], steps: int | None) -> None:
    batch = Batch(8, accumulation=4, steps_per_generation=4, num_generations=8, prompts=4)
    assert _of_rows(rows, most, batch, **arguments) == steps


@pytest.mark.stack
def test_a_run_counts_the_same_tokens(tmp_path: Path, warm_python: Path) -> None:
    """No completion may end early, and all prompts of the quickstart have six tokens."""
    lengths = ("generation.max_prompt_length=6", "generation.min_tokens=6")
    overrides = ("training.max_steps=2", "evaluation=null", *lengths)
    words = [word for override in overrides for word in ("--set", override)]
    at = ("--out", str(tmp_path / "run"))
    command = [str(warm_python / "python"), "-m", "grpo_recipes.cli.main", "run", str(QUICKSTART), *at, *words]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert ran.returncode == 0, ran.stderr[-3000:]
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    counted = [line["num_tokens"] for line in lines if line["event"] == "step"]
    trained = tokens_of(_plan(*overrides), prompt=6).trained
    assert counted == [trained, 2 * trained]
