"""A warm start trains on gold answers as TRL's SFTTrainer does, and leaves GRPO nothing but the weights."""

import functools
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from resumed_runs import killed_after, of_checkpoint, trained_lines, weights
from safetensors.torch import load_file
from worker_runs import (
    Changes,
    Trained,
    environment,
    events,
    launch_deepspeed,
    planned_data,
    planned_world,
    record,
)

pytestmark = pytest.mark.stack

Make = Callable[..., Changes]
Train = Callable[..., Trained]
WARM: Changes = {
    "steps": 6,
    "answer": "{{ answer }}",
    "learning_rate": 0.003,
    "lr_scheduler_type": "linear",
    "warmup_steps": 2,
}
SAVES = {"save_strategy": "steps", "save_steps": 4, "max_steps": 8, "weight_decay": 0.1, "logging_steps": 3}
FOUR_STEPS = {"max_steps": 4, "save_steps": 2}
TWO_MICRO_BATCHES = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}
EXPERIMENT = Path(__file__).parents[1] / "stacks" / "warm_start_experiments.py"


def warm_plan(make_plan: Make, mode: str, arguments: Changes | None = None, **sections: Any) -> Changes:
    sections = {"warm_start": WARM, **sections}
    if mode == "nf4":
        sections = {"shims": {"bnb_cpu_packing": True}, **sections}
    plan = make_plan(mode, arguments={**SAVES, **(arguments or {})}, **sections)
    plan["expect"]["arguments"] = {}
    return plan


@pytest.mark.parametrize(
    ("mode", "schedule", "arguments"),
    [
        pytest.param("full", "constant", {}, id="full at a constant rate", marks=pytest.mark.long),
        pytest.param("lora", "cosine", TWO_MICRO_BATCHES, id="lora in two micro-batches"),
        pytest.param("lora", "linear", {}, id="lora", marks=pytest.mark.long),
    ],
)
def test_its_steps_are_those_of_sft_trainer(
    mode: str,
    schedule: str,
    arguments: Changes,
    make_plan: Make,
    make_run: Callable[..., Path],
    warm_python: Path,
) -> None:
    warm_start = {**WARM, "steps": 20, "lr_scheduler_type": schedule}
    plan = warm_plan(make_plan, mode, {"max_steps": 1, "optim": "adamw_torch", **arguments}, warm_start=warm_start)
    if plan["arguments"]["LoraConfig"]:
        plan["arguments"]["LoraConfig"] = {**plan["arguments"]["LoraConfig"], "lora_dropout": 0.0}
    folder = make_run(plan)

    done = subprocess.run(
        [str(warm_python / "python"), "-Xwarm", str(EXPERIMENT), str(folder)],
        env=environment(PYTHONPATH=str(Path(__file__).parents[2])),
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found["own"]) == 20
    assert found["gradient"] < 1e-6 and found["losses"] < 1e-5 and found["weights"] < 1e-3, found
    assert found["is_as_generated"], found


LONG_OPTIMIZERS = [pytest.param(name, marks=pytest.mark.long) for name in ("sgd", "adamw_8bit")]


@pytest.mark.parametrize("optim", ["adamw_torch_fused", *LONG_OPTIMIZERS])
def test_grpo_then_begins_as_in_a_run_of_the_trained_model(
    optim: str, make_plan: Make, held_out: Make, trained: Train, tmp_path: Path
) -> None:
    arguments = {**FOUR_STEPS, "optim": optim, "optim_args": "momentum=0.9" if optim == "sgd" else None}
    plan = warm_plan(make_plan, "full", arguments, evaluation=held_out(every_steps=2))
    warm = finished(trained, plan, tmp_path / "warm")
    model = tmp_path / "model"
    shutil.copytree(warm.folder / "checkpoints" / "checkpoint-0", model)

    plan = warm_plan(make_plan, "full", arguments, warm_start=None)
    plan["model"]["path"] = str(model)
    alone = finished(trained, plan, tmp_path / "alone")

    own = [line for line in trained_lines(warm.folder) if line["event"] == "step"]
    assert own == [line for line in trained_lines(alone.folder) if line["event"] == "step"] != []
    assert weights(warm.folder) == weights(alone.folder) != {}
    assert weights(warm.folder) != of_checkpoint(warm.folder, 0)
    figures = warm.record["evaluation"]
    assert {"before", "warm_start", "after"} <= figures.keys()
    assert figures["warm_start"]["change"]["from_step"] == 0
    assert {"change", "change_since_warm_start"} <= figures["after"].keys()
    assert warm.record["warm_start"]["step"] == 6
    assert warm.record["warm_start"]["last_loss"] < warm.record["warm_start"]["first_loss"]
    assert [line["warm_step"] for line in events(warm.folder, "warm_start")] == [1, 2, 3, 4, 5, 6]


@pytest.fixture(scope="module")
def undisturbed(
    make_plan: Make, held_out: Make, trained: Train, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Changes, Trained]]:
    """The plan of a run with held-out rows and the run, by mode."""
    folder = tmp_path_factory.mktemp("undisturbed")

    def run(mode: str) -> tuple[Changes, Trained]:
        plan = warm_plan(make_plan, mode, FOUR_STEPS, evaluation=held_out(every_steps=2))
        return plan, finished(trained, plan, folder / mode)

    return functools.cache(run)


@pytest.mark.parametrize("step", [0, 2, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize("mode", ["lora", pytest.param("nf4", marks=pytest.mark.long)])
def test_a_killed_run_goes_on_from_each_phase(
    mode: str,
    step: int,
    undisturbed: Callable[[str], tuple[Changes, Trained]],
    trained: Train,
    tmp_path: Path,
) -> None:
    plan, whole = undisturbed(mode)

    again = killed_after(whole.folder, step, tmp_path / "again")
    checkpoint = str(again / "checkpoints" / f"checkpoint-{step}")
    (again / "run.json").write_text(json.dumps({**record(again), "checkpoint": checkpoint}))
    done = trained(plan, folder=again, resume=True)

    assert done.exit_code == 0, done.output
    assert f"resumed from checkpoint-{step}\n" in done.output
    assert trained_lines(again) == trained_lines(whole.folder)
    assert weights(again) == weights(whole.folder) != {}
    assert done.record["warm_start"]["step"] == 6


def test_a_signal_within_it_saves_and_the_run_goes_on(
    undisturbed: Callable[[str], tuple[Changes, Trained]], trained: Train, tmp_path: Path
) -> None:
    plan, whole = undisturbed("lora")
    cut = trained(plan, "a_signal_in_the_warm_start", folder=tmp_path)
    assert cut.exit_code == 75, cut.output
    assert cut.record["warm_start"]["step"] == 3
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["checkpoint-0"]

    done = trained(plan, folder=tmp_path, resume=True)
    assert done.exit_code == 0, done.output
    assert "resumed from checkpoint-0\n" in done.output
    assert trained_lines(tmp_path) == trained_lines(whole.folder)
    assert weights(tmp_path) == weights(whole.folder) != {}


def test_two_processes_take_the_steps_of_one(make_plan: Make, trained: Train, tmp_path: Path) -> None:
    alone = finished(trained, warm_plan(make_plan, "full", {"max_steps": 1}), tmp_path / "alone")
    arguments = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "steps_per_generation": 2}
    plan = warm_plan(make_plan, "full", {**arguments, "max_steps": 2, "save_steps": 6})
    plan["batch"].update(micro_batch=4, accumulation=2, steps_per_generation=2)
    plan["world"].update(num_processes=2, strategy="ddp")
    plan["expect"]["world_size"] = 2
    whole = finished(trained, plan, tmp_path / "whole", ranks=2)

    assert losses(whole.folder) == pytest.approx(losses(alone.folder), abs=1e-6)
    assert furthest(whole.folder, alone.folder) < 1e-5

    again = killed_after(whole.folder, 0, tmp_path / "again")
    done = trained(plan, folder=again, resume=True, ranks=2)
    assert done.exit_codes == [0, 0], done.output
    assert trained_lines(again) == trained_lines(whole.folder)
    assert weights(again) == weights(whole.folder) != {}


@pytest.mark.parametrize("stage", [pytest.param(2, marks=pytest.mark.long), 3])
@pytest.mark.usefixtures("warm")
def test_sharded_processes_take_the_steps_of_one(
    stage: int, make_plan: Make, make_run: Callable[..., Path], trained: Train, tmp_path: Path
) -> None:
    alone = finished(trained, warm_plan(make_plan, "full", {"max_steps": 1}), tmp_path / "alone")
    warm, model = make_run(sharded(stage, make_plan), name="warm"), tmp_path / "model"
    launch_sharded(stage, warm)

    assert losses(warm) == pytest.approx(losses(alone.folder), abs=1e-5)

    # GRPO then has a fresh optimizer: its steps are those of a run of the trained model.
    shutil.copytree(warm / "checkpoints" / "checkpoint-0", model)
    plan = sharded(stage, make_plan, warm_start=None)
    plan["model"]["path"] = str(model)
    later = make_run(plan, name="later")
    launch_sharded(stage, later)
    assert weights(later) == weights(warm) != {}


def sharded(stage: int, make_plan: Make, **sections: Any) -> Changes:
    """The plan of two processes that share the states."""
    arguments = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "steps_per_generation": 2}
    plan = warm_plan(make_plan, "full", {**arguments, "max_steps": 1, "save_steps": 6}, **sections)
    plan["batch"].update(micro_batch=4, accumulation=2, steps_per_generation=2)
    plan["world"] = planned_world(num_processes=2, strategy=f"zero{stage}")
    plan["expect"].update(world_size=2, deepspeed_stage=stage)
    plan["shims"] = {"deepspeed_shm": True}
    return plan


def launch_sharded(stage: int, folder: Path) -> None:
    auto = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping")
    whole = {"stage3_param_persistence_threshold": 0, "stage3_gather_16bit_weights_on_model_save": True}
    how = {**dict.fromkeys(auto, "auto"), "zero_optimization": {"stage": stage, **(whole if stage == 3 else {})}}
    exit_code, output = launch_deepspeed(folder, how)
    assert exit_code == 0, output


LONG = [
    {"question": "1+1=", "answer": "2" * 9},
    {"question": "2+2=", "answer": ""},
    {"question": "3+3=", "answer": "6"},
]


def test_answers_that_generation_could_not_give_are_named(make_plan: Make, trained: Train, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in [*LONG, *[LONG[-1]] * 5]))
    plan = warm_plan(make_plan, "full", {"max_steps": 1}, data=planned_data(rows))
    done = finished(trained, plan, tmp_path / "run")

    assert "warm start without 2 rows: " in done.output
    assert "the answer of row 1 has 10 tokens with its end, more than max_completion_length 6" in done.output
    assert "the answer of row 2 is empty" in done.output
    assert done.record["warm_start"] | {"rows": 8, "left_out": 2} == done.record["warm_start"]

    rows.write_text("".join(json.dumps(row) + "\n" for row in LONG[:2] * 4))
    (tmp_path / "none").mkdir()
    refused = trained(plan, folder=tmp_path / "none")
    assert refused.exit_code == 3
    assert "no gold answer of warm_start.answer can be trained" in refused.output


def test_weights_that_its_last_step_breaks_are_not_saved(make_plan: Make, trained: Train, tmp_path: Path) -> None:
    broken = {**WARM, "steps": 1, "warmup_steps": 0, "learning_rate": 1e300}
    refused = trained(warm_plan(make_plan, "lora", warm_start=broken), folder=tmp_path)
    assert refused.exit_code == 3
    assert "weights are no numbers after step 1 of the warm start" in refused.output
    assert not list((tmp_path / "checkpoints").glob("checkpoint-*"))


def finished(trained: Train, plan: Changes, folder: Path, **request: Any) -> Trained:
    folder.mkdir()
    done = trained(plan, folder=folder, **request)
    assert done.exit_code == 0, done.output
    return done


def losses(folder: Path) -> list[float]:
    return [line["loss"] for line in events(folder, "warm_start")]


def furthest(folder: Path, other: Path) -> float:
    """The largest difference of the weights after the warm start."""
    name = "checkpoints/checkpoint-0/model.safetensors"
    first, second = load_file(folder / name), load_file(other / name)
    return max(float((first[key] - second[key]).abs().max()) for key in first)


def test_vllm_gets_its_weights_before_it_generates(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM had the untrained weights at step 0 before: it answered held-out rows. Its server alone is replaced."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig
    from trl.generation import vllm_generation

    from grpo_recipes.worker.callbacks.warm_start import begin_anew
    from grpo_recipes.worker.trainer.observed import ObservedTrainer

    asked: list[str | float] = []

    class Server:
        def __init__(self, **_: Any) -> None: ...

        def init_communicator(self, device: Any) -> None: ...

        def reset_prefix_cache(self) -> None: ...

        def update_named_params(self, _: Any, parameters: Any) -> None:
            asked.append(float({**dict(parameters)}["model.norm.weight"].detach().float().mean()))

        def generate(self, prompts: Any, n: int, **_: Any) -> Any:
            asked.append("generate")
            answers = [[5 + index, 2] for index in range(n)] * len(prompts)
            return {"prompt_ids": prompts, "completion_ids": answers, "logprobs": [[[-1.0]] * 2 for _ in answers]}

    class WarmStart(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            trainer._generate_single_turn([[5]], None, {}, 1)
            trainer.model.model.norm.weight.data.fill_(3.0)
            begin_anew(trainer)

    monkeypatch.setattr(vllm_generation, "is_vllm_available", lambda *_: True)
    monkeypatch.setattr(vllm_generation, "VLLMClient", Server)
    quiet = {"report_to": "none", "save_strategy": "no", "use_cpu": True, "bf16": False, "learning_rate": 1e-9}
    small = {"max_steps": 1, "per_device_train_batch_size": 4, "num_generations": 4, "max_completion_length": 4}
    trainer = ObservedTrainer(
        model=str(tiny_model),
        args=GRPOConfig(
            str(tmp_path),
            use_vllm=True,
            vllm_mode="server",
            vllm_importance_sampling_correction=False,
            **quiet,
            **small,
        ),
        train_dataset=Dataset.from_list([{"prompt": "1+1="}] * 4),
        reward_funcs=lambda completions, **_: [float(len(text)) for text in completions],
        callbacks=[WarmStart()],
    )
    trainer.train()
    assert asked[1:] == ["generate", 3.0, "generate"] and asked[0] != 3.0
