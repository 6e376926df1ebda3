"""One recipe is the same training under each strategy, really run with two processes on the CPU."""

import json
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from distributed_runs import (
    AUTOCAST,
    CUT_IN_FOUR_BITS,
    KINDS,
    STEPS,
    STRATEGIES,
    Run,
    RunOf,
    difference,
    environment,
    grpo_run,
    loaded_weights,
    looked_at,
    saved_dtypes,
)

pytestmark = pytest.mark.stack
full_form = pytest.mark.distributed

CLOSE = 1e-5
BFLOAT16 = 2**-8
PACKED = "proj.base_layer.weight"
ZERO = ("zero1", "zero2", "zero3")


def _assert_completed(run: Run) -> None:
    assert run.exit_code == 0, run.output
    assert len(run.steps("reward")) == STEPS
    assert sorted(run.evaluations()) == ["step-0.jsonl", "step-2.jsonl", "step-3.jsonl"]
    assert sorted(path.name for path in (run.folder / "checkpoints").iterdir()) == ["checkpoint-2", "checkpoint-3"]
    assert sorted(path.name for path in (run.folder / "cache").glob("*.arrow")) == [
        "dataset-0.arrow",
        "evaluation-0.arrow",
    ]


def _assert_same(run: Run, reference: Run) -> None:
    _assert_completed(run)
    apart = difference(run, reference)
    assert (apart.reward, apart.evaluation) == (0, 0), apart
    assert max(apart.loss, apart.grad_norm, apart.weights) < CLOSE, apart


def _parameters(run: Run) -> list[dict[str, dict[str, Any]]]:
    """What each rank held at the end, by parameter."""
    files = sorted(run.folder.glob("parameters-*.json"))
    return [json.loads(file.read_text()) for file in files]


def _assert_sharded(run: Run) -> None:
    ranks = _parameters(run)
    assert len(ranks) == 2
    for held in ranks:
        for name, counts in held.items():
            assert counts["here"] == 0, name
            assert counts["shard"] == (counts["whole"] + 1) // 2, name


def test_zero3_is_ddp_with_shards_and_saves_the_adapter_whole(run_of: RunOf, tmp_path: Path) -> None:
    reference = run_of("ddp", "LoRA")
    _assert_completed(reference)
    moved = [name for name, tensor in loaded_weights(reference).items() if "lora_B" in name and tensor.any()]
    assert len(moved) == 14

    sharded = looked_at("zero3", "LoRA", tmp_path, trl__ddp_timeout=333)

    _assert_same(sharded, reference)
    _assert_sharded(sharded)
    for rank in range(2):
        seconds = json.loads((sharded.folder / f"timeouts-{rank}.json").read_text())
        assert len(seconds) > 1 and set(seconds) == {333}, "DeepSpeed makes groups of its own"


@pytest.mark.long
def test_a_stale_extension_lock_holds_nobody_up(run_of: RunOf, tmp_path: Path) -> None:
    names = ("deepspeed_shm_comm", "cpu_adam", "fused_adam", "utils", "deepspeed_ccl_comm", "async_io")
    locks = [tmp_path / "extensions" / name / "lock" for name in names]
    for lock in locks:
        lock.parent.mkdir(parents=True)
        lock.touch()

    run = grpo_run("zero2", "LoRA", tmp_path)

    _assert_same(run, run_of("ddp", "LoRA"))
    assert sorted(path for path in (tmp_path / "extensions").rglob("*") if path.is_file()) == sorted(locks)


@full_form
def test_two_processes_train_with_the_shared_memory_of_docker(tmp_path: Path) -> None:
    inside = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=64m small /dev/shm && exec "$@"', "sh"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    _assert_completed(grpo_run("ddp", "LoRA", tmp_path, inside))


def _live(run: Run) -> tuple[dict[str, object], str]:
    """The values that were compared before the first step, and what the proof of the processes saw."""
    record = json.loads((run.folder / "run.json").read_text())
    shown = {proof["id"]: proof["shown"] for proof in record["proofs"]}
    return {check["name"]: check["live"] for check in record["checks"]}, shown["PRF001"]


@full_form
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_trains_evaluates_and_saves(strategy: str, kind: str, run_of: RunOf) -> None:
    run = run_of(strategy, kind)
    _assert_completed(run)
    checks, world = _live(run)
    assert world.startswith("world 1/1" if strategy == "single" else "world 2/2")
    assert checks["DeepSpeed stage"] == (int(strategy[-1]) if strategy in ZERO else 0)
    assert any(tensor.any() for name, tensor in loaded_weights(run).items() if "lora_A" not in name)


@full_form
@pytest.mark.parametrize("kind", ["full", "LoRA"])
@pytest.mark.parametrize("strategy", ZERO)
def test_a_zero_stage_gives_the_numbers_of_ddp(strategy: str, kind: str, run_of: RunOf) -> None:
    _assert_same(run_of(strategy, kind), run_of("ddp", kind))


@full_form
@pytest.mark.parametrize("strategy", ["zero2", "zero3"])
def test_with_a_4_bit_base_the_zero_stages_agree_with_each_other(strategy: str, run_of: RunOf) -> None:
    run, reference = run_of(strategy, "nf4 LoRA"), run_of("zero1", "nf4 LoRA")
    apart = difference(run, reference)
    assert (apart.reward, apart.evaluation) == (0, 0), apart
    assert run.steps("grad_norm")[0] == pytest.approx(reference.steps("grad_norm")[0], rel=CLOSE)
    # Afterwards a weight may lie on the other side of a rounding to bfloat16.
    largest = max(float(tensor.abs().max()) for tensor in loaded_weights(reference).values())
    assert apart.loss < CLOSE
    assert apart.grad_norm < BFLOAT16 and apart.weights / largest <= 2 * BFLOAT16, apart  # one step of bfloat16


@full_form
def test_with_a_4_bit_base_ddp_differs_by_the_rounding_of_its_bfloat16_adapter(run_of: RunOf) -> None:
    ddp, zero1 = run_of("ddp", "nf4 LoRA"), run_of("zero1", "nf4 LoRA")
    apart = difference(zero1, ddp)
    assert (apart.reward, apart.evaluation) == (0, 0)
    assert apart.loss < CLOSE
    # The norm is rounded, and so are the gradients that it is of.
    assert CLOSE < apart.grad_norm <= 2 * BFLOAT16


@full_form
@pytest.mark.parametrize("kind", KINDS)
def test_one_process_starts_from_the_same_policy_and_draws_other_completions(kind: str, run_of: RunOf) -> None:
    single, ddp = run_of("single", kind), run_of("ddp", kind)
    assert single.evaluations()["step-0.jsonl"] == ddp.evaluations()["step-0.jsonl"]
    assert single.steps("reward") != ddp.steps("reward")


@full_form
@pytest.mark.parametrize("kind", ["full", "nf4 LoRA"])
def test_under_zero3_no_process_keeps_a_whole_parameter(kind: str, run_of: RunOf, tmp_path: Path) -> None:
    run = looked_at("zero3", kind, tmp_path)
    _assert_same(run, run_of("zero3", kind))  # the same strategy twice: also the bfloat16 adapter is the same
    _assert_sharded(run)


@full_form
@pytest.mark.parametrize("strategy", ["ddp", "zero3"])
def test_gradient_checkpointing_changes_no_number_of_an_adapter(strategy: str, run_of: RunOf, tmp_path: Path) -> None:
    run = grpo_run(strategy, "LoRA", tmp_path, training__gradient_checkpointing=True)
    _assert_same(run, run_of("ddp", "LoRA"))
    arguments = json.loads((run.folder / "plan.json").read_text())["arguments"]["GRPOConfig"]
    assert arguments["activation_checkpointing_kwargs"] == {"use_reentrant": strategy == "zero3"}


@full_form
@pytest.mark.parametrize("kind", AUTOCAST)
@pytest.mark.parametrize("strategy", ["zero2", "zero3"])
def test_bf16_autocast_keeps_float32_weights(strategy: str, kind: str, run_of: RunOf) -> None:
    run, reference = run_of(strategy, kind), run_of("ddp", kind)
    for each in (run, reference):
        _assert_completed(each)
        assert saved_dtypes(each) == {"float32"}
    # Sampled in bfloat16, one of 64 completions may be another.
    apart = abs(run.steps("reward")[0] - reference.steps("reward")[0])
    assert apart <= 1 / 64
    assert run.steps("grad_norm")[0] == pytest.approx(reference.steps("grad_norm")[0], rel=BFLOAT16 + 2 * apart)
    assert run.steps("grad_norm")[0] != run_of("ddp", kind.partition(",")[0]).steps("grad_norm")[0]


@full_form
@pytest.mark.parametrize("kind", AUTOCAST)
def test_zero_scores_and_generates_in_the_precision_of_ddp(kind: str, tmp_path: Path) -> None:
    losses, dtypes = {}, {}
    for strategy in ("ddp", "zero2", "zero3"):
        (tmp_path / strategy).mkdir()
        run = looked_at(strategy, kind, tmp_path / strategy, grpo__beta=0.04)
        _assert_completed(run)
        losses[strategy] = run.steps("loss")[0]
        dtypes[strategy] = [json.loads(file.read_text()) for file in sorted(run.folder.glob("dtypes-*.json"))]
        shims = json.loads((run.folder / "run.json").read_text())["shims"]
        assert ("zero_autocast" in shims) == (strategy != "ddp")
    assert {found["scores"][0] for found in dtypes["ddp"]} == {found["loss"][0] for found in dtypes["ddp"]}
    assert dtypes["zero2"] == dtypes["zero3"] == dtypes["ddp"]
    assert losses["zero2"] == pytest.approx(losses["ddp"], rel=BFLOAT16)
    assert losses["zero3"] == pytest.approx(losses["ddp"], rel=BFLOAT16)


WAITING = """
import deepspeed
print("starts", flush=True)
deepspeed.init_distributed("gloo")
print("started", flush=True)
"""


@full_form
def test_without_the_shim_deepspeed_waits_for_a_stale_lock(tmp_path: Path) -> None:
    lock = tmp_path / "extensions" / "deepspeed_shm_comm" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    world = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    variables = {**environment(tmp_path), **world, "DS_ACCELERATOR": "cpu"}
    command = [sys.executable, "-u", "-c", WAITING]
    with pytest.raises(subprocess.TimeoutExpired) as waited:
        subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, timeout=45)
    said = (waited.value.stdout or b"").decode()
    assert "starts" in said
    assert "started" not in said


def test_fsdp2_gives_the_numbers_of_ddp_in_shards_and_saves_the_adapter_whole(run_of: RunOf, tmp_path: Path) -> None:
    sharded = looked_at("fsdp2", "LoRA", tmp_path)
    _assert_same(sharded, run_of("ddp", "LoRA"))
    assert all(count["shard"] is not None for count in chain(*(held.values() for held in _parameters(sharded))))
    assert sum(count["shard"] for count in _parameters(sharded)[0].values()) < 0.6 * _whole(sharded)
    assert json.loads((sharded.folder / "fsdp-0.json").read_text())["layers_that_reshard"] > 0


def _whole(run: Run) -> int:
    """How many numbers the parameters have together, however they are cut."""
    return sum(count["whole"] for count in _parameters(run)[0].values())


@full_form
def test_fsdp2_keeps_whole_weights_where_a_recipe_says_so(run_of: RunOf, tmp_path: Path) -> None:
    settings = {"reshard_after_forward": False, "cpu_ram_efficient_loading": False}
    run = looked_at("fsdp2", "full", tmp_path, distributed__fsdp=settings)
    _assert_same(run, run_of("ddp", "full"))
    seen = json.loads((run.folder / "fsdp-0.json").read_text())
    assert {name: seen[name] for name in settings} == settings
    assert seen["layers_that_reshard"] == 0


@full_form
@pytest.mark.parametrize("kind", ["full", "LoRA"])
def test_fsdp2_gives_the_numbers_of_ddp(kind: str, run_of: RunOf) -> None:
    _assert_same(run_of("fsdp2", kind), run_of("ddp", kind))


@full_form
def test_fsdp2_cuts_4_bit_weights_as_they_are_stored(tmp_path: Path) -> None:
    runs = {}
    for kind in ("nf4 LoRA", CUT_IN_FOUR_BITS):
        folder = tmp_path / kind.replace(" ", "-")
        folder.mkdir()
        runs[kind] = looked_at("fsdp2", kind, folder)
        _assert_completed(runs[kind])
    _assert_same(runs["nf4 LoRA"], runs[CUT_IN_FOUR_BITS])
    cut = {
        kind: {count["shard"] is not None for name, count in _parameters(run)[0].items() if name.endswith(PACKED)}
        for kind, run in runs.items()
    }
    assert cut == {"nf4 LoRA": {False}, CUT_IN_FOUR_BITS: {True}}


@full_form
@pytest.mark.parametrize("kind", AUTOCAST)
def test_fsdp2_keeps_float32_weights_under_bf16_autocast(kind: str, run_of: RunOf) -> None:
    run, reference = run_of("fsdp2", kind), run_of("ddp", kind)
    _assert_completed(run)
    assert saved_dtypes(run) == {"float32"}
    assert run.steps("grad_norm")[0] == pytest.approx(reference.steps("grad_norm")[0], rel=2 * BFLOAT16)


@full_form
def test_a_claimed_cut_is_trained_by_its_processes(tmp_path: Path) -> None:
    cut = {"processes": 2, "per_device_train_batch_size": 16}
    run = grpo_run("ddp", "LoRA", tmp_path, training__cut=cut, launch__num_processes="auto", grpo__loss_type="bnpo")
    _assert_completed(run)
    checks, world = _live(run)
    assert (world, checks["GRPOConfig.per_device_train_batch_size"]) == ("world 2/2", 16)
    assert checks["GRPOConfig.loss_type"] == "bnpo"
