"""Two processes train together, with the global batch of one, or the run is stopped."""

from collections.abc import Callable
from pathlib import Path

import pytest
from resumed_runs import of_checkpoint, weights
from worker_runs import (
    LORA,
    Changes,
    Trained,
    events,
    launch,
    launch_deepspeed,
    lora_numbers,
    plan_of,
    planned_reward,
    planned_world,
    record,
    start,
    train,
)

PAIR = planned_world(num_processes=2, strategy="ddp")
DDP_YAML = """\
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
num_machines: 1
num_processes: 2
machine_rank: 0
main_process_port: 0
use_cpu: true
mixed_precision: "no"
"""
ZERO3 = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
}


def for_two(plan: Changes, **expect: object) -> Changes:
    """The plan for two processes: each takes half of the completions of a step."""
    plan["world"] = PAIR
    plan["expect"].update(world_size=2, **expect)
    plan["expect"]["arguments"]["per_device_train_batch_size"] = 8
    return plan


@pytest.mark.stack
@pytest.mark.usefixtures("warm")
def test_two_processes_train_with_the_global_batch_of_one(
    make_plan: Callable[..., Changes],
    held_out: Callable[..., Changes],
    make_run: Callable[..., Path],
    trained: Callable[..., Trained],
) -> None:
    arguments = {"per_device_train_batch_size": 8, "max_steps": 3}
    passes = {"reward": "digits", "at_least": 1.0}
    sampled = held_out(samples=3, greedy=False, pass_at=[1, 3], passes=passes)
    plan = for_two(make_plan("lora", arguments=arguments, evaluation=sampled))
    one = trained(make_plan("lora", arguments={"max_steps": 1}, evaluation=sampled))
    assert one.exit_code == 0, one.output
    alone = one.folder

    together = make_run(plan)
    exit_code, output = launch(together, DDP_YAML)
    assert exit_code == 0, output

    assert output.count("step 3/3") == 1
    check_proofs(together, "world 2/2", "gradient on 28/28 trainable tensors", "/16 completions end at eos", "28/28")
    assert output.count("step 1 proofs") == 1
    # The same prompts in a step, 2 groups of 8 completions; the same held-out rows, with the same answers.
    first, first_alone = events(together, "step")[0], events(alone, "step")[0]
    assert first["num_tokens"] - 16 * first["completions/mean_length"] == pytest.approx(
        first_alone["num_tokens"] - 16 * first_alone["completions/mean_length"]
    )
    assert (together / "evaluation" / "step-0.jsonl").read_text() == (alone / "evaluation" / "step-0.jsonl").read_text()
    both = [events(folder, "evaluation")[0] for folder in (together, alone)]
    figures = [{key: value for key, value in one.items() if key not in ("time", "seconds")} for one in both]
    assert figures[0] == figures[1]
    assert (figures[0]["count"], figures[0]["samples"]) == (11, 3)
    assert (Path(record(together)["final"]) / "adapter_model.safetensors").stat().st_size > 0


FALLING = """
def falling(completions, trainer_state, **kwargs):
    return [-trainer_state.global_step + 0.001 * len(set(completion[0]["content"])) for completion in completions]
"""


@pytest.mark.stack
@pytest.mark.usefixtures("warm")
def test_sharded_weights_are_trained_counted_evaluated_and_the_best_handed_over(
    make_plan: Callable[..., Changes],
    held_out: Callable[..., Changes],
    make_run: Callable[..., Path],
    sha256_of_text: Callable[[str], str],
) -> None:
    reward = planned_reward("own.py:falling", kind="python", name="falling", sha256=sha256_of_text(FALLING))
    saves = {"save_strategy": "steps", "save_steps": 1, "save_total_limit": 1}
    arguments = {"per_device_train_batch_size": 8, "max_steps": 2, **saves}
    how = held_out(every_steps=1, keep_best=True)
    plan = for_two(
        make_plan("lora", arguments=arguments, evaluation=how, rewards=[reward], shims={"deepspeed_shm": True}),
        deepspeed_stage=3,
        trainable_parameters=lora_numbers(LORA["r"]),
    )
    folder = make_run(plan, user={"own.py": FALLING})

    exit_code, output = launch_deepspeed(folder, ZERO3)

    assert exit_code == 0, output
    end = record(folder)
    assert end["status"] == "completed"
    assert {"id": "PRF012", "name": "DeepSpeed stage", "plan": 3, "live": 3, "ok": True} in end["checks"]
    assert end["evaluation"]["after"]["count"] == 11
    assert end["final_step"] == 1
    assert weights(folder) == of_checkpoint(folder, 1) != of_checkpoint(folder, 2)
    check_proofs(folder, "world 2/2, ZeRO-3", "28/28 trainable tensors, 14 of them zero", "all 14 LoRA B nonzero")
    assert "deepspeed_shm_comm" not in output


@pytest.mark.stack
@pytest.mark.usefixtures("warm")
def test_an_output_layer_of_its_own_is_trained_in_shards(
    make_run: Callable[..., Path], tiny_model: Path, sums: Path, tmp_path: Path
) -> None:
    """TRL's loss takes its weights without calling it; the proof of the draws calls it just before."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path)
    AutoModelForCausalLM.from_pretrained(tiny_model, tie_word_embeddings=False).save_pretrained(tmp_path)
    arguments = {"per_device_train_batch_size": 8, "max_steps": 1}
    plan = for_two(plan_of(tmp_path, sums, arguments=arguments, shims={"deepspeed_shm": True}), deepspeed_stage=3)
    folder = make_run(plan)

    exit_code, output = launch_deepspeed(folder, ZERO3)

    assert exit_code == 0, output
    assert "generate draws from the policy" in output


IDLE = """
import torch
torch.optim.AdamW.step = lambda self, closure=None: None

def place(completions, **kwargs):
    return [float(number) for number, _ in enumerate(completions)]
"""


@pytest.mark.stack
def test_a_proof_that_fails_ends_all_processes(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], sha256_of_text: Callable[[str], str]
) -> None:
    reward = planned_reward("idle.py:place", kind="python", name="place", sha256=sha256_of_text(IDLE))
    plan = for_two(make_plan("lora", arguments={"per_device_train_batch_size": 8, "max_steps": 3}, rewards=[reward]))

    done = trained(plan, user={"idle.py": IDLE}, ranks=2)

    assert done.exit_codes == [3, 3], done.output
    assert (done.record["status"], done.record["exit_code"]) == ("stopped", 3), done.output
    assert "14 of 14 LoRA B are zero after 2 steps" in done.record["message"]


def check_proofs(folder: Path, *shown: str) -> None:
    proofs = record(folder)["proofs"]
    assert [proof["name"] for proof in proofs if proof["ok"] is not True] == []
    assert len(proofs) == 10
    text = " · ".join(proof["shown"] for proof in proofs)
    assert [words for words in shown if words not in text] == [], text


@pytest.mark.processes
def test_asking_for_two_processes_and_getting_one_stops_before_anything_is_imported(
    stub_plan: Changes, make_run: Callable[..., Path]
) -> None:
    folder = make_run(for_two(stub_plan))

    exit_code, output = train(folder, PYTHONPATH=str(without_torch(folder)))

    assert exit_code == 3
    assert "error: processes started: 1, planned: 2" in output
    assert (record(folder)["status"], record(folder)["exit_code"]) == ("stopped", 3)


@pytest.mark.parametrize(
    ("started", "message"),
    [
        ({"GROUP_WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "4"}, "machines that started: 1, planned: 2"),
        ({"GROUP_WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "3"}, "processes started on this machine: 3, planned: 2"),
    ],
    ids=["all on one machine", "more on this machine than on the other"],
)
@pytest.mark.processes
def test_other_machines_than_planned_stop_the_run_before_anything_is_imported(
    started: dict[str, str], message: str, stub_plan: Changes, make_run: Callable[..., Path]
) -> None:
    stub_plan["world"] = planned_world(num_nodes=2, num_processes=4, strategy="ddp")
    stub_plan["expect"]["world_size"] = 4
    folder = make_run(stub_plan)

    exit_code, output = train(folder, PYTHONPATH=str(without_torch(folder)), WORLD_SIZE="4", RANK="0", **started)

    assert exit_code == 3, output
    assert f"error: {message}\n" in output
    assert "launch.sh of the run folder on each machine" in record(folder)["message"]


def without_torch(folder: Path) -> Path:
    """A folder whose `torch` cannot be imported."""
    path = folder / "no-torch"
    path.mkdir()
    (path / "torch.py").write_text("raise ImportError('torch was imported')\n")
    return path


@pytest.mark.stack
@pytest.mark.usefixtures("warm")
def test_processes_that_do_not_find_each_other_are_stopped_before_the_model_loads(
    make_plan: Callable[..., Changes], make_run: Callable[..., Path]
) -> None:
    # use_cpu false without a GPU: each of the two processes would train alone, into the same folder.
    plan = for_two(make_plan(arguments={"use_cpu": False, "per_device_train_batch_size": 8}))
    plan["model"]["path"] = "/nonexistent"
    folder = make_run(plan)

    ranks = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29817"}
    both = [start(folder, **ranks, RANK=rank, LOCAL_RANK=rank, CUDA_VISIBLE_DEVICES="") for rank in "01"]
    outputs = [process.communicate(timeout=100)[0] for process in both]

    first, other = (process.returncode for process in both)
    assert first == 3, outputs
    # Where the first one leaves before the other has found it, that one misses its store.
    assert other == 3 or (other == 75 and "start all machines again" in outputs[1]), outputs
    assert "processes that train together: 1, planned: 2" in record(folder)["message"]
