"""Seconds lie where others measured them, and go with what they depend on."""

from typing import Any

import pytest

from grpo_recipes.duration.between import Between
from grpo_recipes.duration.estimate import Seconds, Step, flops_of, seconds_of, why_untimed
from grpo_recipes.duration.generation import transformers_seconds, vllm_seconds
from grpo_recipes.duration.gpu import TimedGpu, compute_seconds, reading_seconds, together
from grpo_recipes.duration.levers import largest_lever
from grpo_recipes.duration.shares import COMPUTE, TRANSFORMERS_BANDWIDTH
from grpo_recipes.duration.work import Work
from grpo_recipes.facts.gpu_speeds import gpu_speed
from grpo_recipes.memory.layout import Layout
from grpo_recipes.memory.needs import MemoryNeeds
from grpo_recipes.memory.update import Adapter, FourBits, Update
from grpo_recipes.user_files.architecture import Architecture, read_architecture
from grpo_recipes.user_files.model_config import read_model_config

ONE = Update(2, None, None, None, False, "flash_attention_2", 1, 1, 2048, 1, "adamw_torch", "fused", is_padded=False)
STEP_UPDATE = Update(2, 2, None, Adapter(16, "all-linear", 4), True, "sdpa", 8, 512, 512, 8, "adamw_torch", "fused")
ALONE = Layout("single", 1, "transformers", 64)
WORK = Work(1.0, 1, 8, 0, 1, 0)


NEEDS = MemoryNeeds(read_model_config("Qwen/Qwen2.5-1.5B"), STEP_UPDATE, ALONE, 80 * 2**30, ())


def _gpu(name: str) -> TimedGpu:
    speed = gpu_speed(name)
    assert speed is not None
    return TimedGpu(speed)


def _architecture(model: str) -> Architecture:
    config = read_model_config(model)
    found = None if config is None else read_architecture(config)
    assert found is not None
    return found


def _step(**changes: Any) -> Step:
    return Step(_architecture("Qwen/Qwen2.5-1.5B"), STEP_UPDATE, ALONE, WORK)._replace(**changes)


def _on_a100(**changes: Any) -> Seconds:
    return seconds_of(_step(**changes), _gpu("A100-80GB"))


def test_ends_by_hand() -> None:
    a100 = _gpu("A100-40GB")
    assert reading_seconds(a100, 1555e9, TRANSFORMERS_BANDWIDTH) == Between(1.0, 1 / 0.45)
    for gpu, flops, width in ((a100, 312e12, 2), (a100, 19.5e12, 4), (a100._replace(has_tf32=True), 156e12, 4)):
        assert compute_seconds(gpu, flops, width) == pytest.approx((1 / COMPUTE.most, 1 / COMPUTE.least))
    assert together(Between(1, 2), Between(3, 4), Between(0, 1)) == Between(3, 7)


def test_a_share_is_widest_where_one_side_is_long_and_the_other_short() -> None:
    assert Between(1, 3).share_of(Between(1, 4)) == Between(1 / 5, 3 / 4)
    assert Between(0, 0).share_of(Between(0, 0)) == Between(0, 0)


@pytest.mark.parametrize(
    ("model", "transformers", "vllm"),
    [
        pytest.param("Qwen/Qwen2.5-0.5B", 47.40, 311.55, id="0.5B"),
        pytest.param("Qwen/Qwen2.5-1.5B", 39.68, 183.33, id="1.5B"),
        pytest.param("Qwen/Qwen2.5-3B", 30.80, 127.61, id="3B"),
        pytest.param("Qwen/Qwen2.5-7B", 40.38, 84.28, id="7B"),
        pytest.param("Qwen/Qwen2.5-14B", 24.74, 46.30, id="14B"),
        pytest.param("Qwen/Qwen2.5-32B", 17.54, 22.13, id="32B"),
    ],
)
def test_published_tokens_of_one_sequence_lie_within(model: str, transformers: float, vllm: float) -> None:
    """https://qwen.readthedocs.io/en/v2.5/benchmark/speed_benchmark.html: 2,048 tokens on an A100 80GB."""
    a100, architecture = _gpu("A100-80GB"), _architecture(model)
    for seconds, speed in (
        (transformers_seconds(a100, architecture, ONE, 1), transformers),
        (vllm_seconds(a100, architecture, ONE, 1, 1, 1, 1), vllm),
    ):
        assert seconds.least <= 2048 / speed <= seconds.most


def test_more_sequences_take_no_less() -> None:
    a100, architecture = _gpu("A100-80GB"), _architecture("Qwen/Qwen2.5-7B")
    for one, many in ((1, 8), (8, 64), (64, 512)):
        few, all_of_them = (transformers_seconds(a100, architecture, ONE, count) for count in (one, many))
        assert few.least <= all_of_them.least
        assert few.most < all_of_them.most < few.most * many / one


def test_sequences_that_wait_for_room_take_longer_at_worst() -> None:
    a100, architecture = _gpu("A100-80GB"), _architecture("Qwen/Qwen2.5-7B")
    room, half = (vllm_seconds(a100, architecture, ONE, 64, 8, 1, held) for held in (64, 32))
    assert half.least == room.least
    assert room.most < half.most < 2 * room.most


@pytest.mark.parametrize(
    "slower",
    [
        pytest.param({"adapter": None, "weight_width": 4}, id="all weights in float32, cast for each token"),
        pytest.param({"four_bits": FourBits(2, True)}, id="four bits"),
        pytest.param({"completion": 1024}, id="longer completions"),
        pytest.param({"weight_width": 4}, id="an adapter beside float32, which nothing casts"),
    ],
)
def test_what_makes_generation_slower(slower: dict[str, Any]) -> None:
    before, after = _on_a100(), _on_a100(update=STEP_UPDATE._replace(**slower))
    assert before.generation.most < after.generation.most


def test_a_generation_is_shared_out_among_its_steps() -> None:
    once, twice = _on_a100(), _on_a100(work=WORK._replace(generation_every=2.0, iterations=2, scoring_passes=1))
    assert twice.generation == once.generation.times(0.5)
    assert once.scoring == Between(0, 0) and twice.scoring.least > 0
    assert twice.update == once.update


def test_checkpointing_computes_more_and_takes_longer() -> None:
    kept = _step(update=STEP_UPDATE._replace(is_checkpointing=False))
    assert flops_of(kept).update < flops_of(_step()).update
    a100 = _gpu("A100-80GB")
    assert seconds_of(kept, a100).update.least < seconds_of(_step(), a100).update.least


def test_processes_multiply_operations_and_not_seconds() -> None:
    two = _step(work=WORK._replace(processes=2))
    assert flops_of(two).total() == 2 * flops_of(_step()).total()
    assert seconds_of(two, _gpu("A100-80GB")) == _on_a100()


def test_the_largest_lever_is_vllm_where_python_starts_each_kernel() -> None:
    lever = largest_lever(_step(), _gpu("A100-80GB"), NEEDS, cuts_sampling=False, has_fixed_cut=False)
    assert lever is not None
    assert (lever.setting, lever.keeps) == ("generation.use_vllm: true", True)
    assert 0.3 < lever.saves < 1


def test_what_the_gpu_has_no_room_for_is_no_lever() -> None:
    small = NEEDS._replace(gpu_bytes=6 * 2**30)
    lever = largest_lever(_step(), _gpu("A100-80GB"), small, cuts_sampling=False, has_fixed_cut=True)
    assert lever is None or not lever.keeps


def test_what_changes_the_experiment_is_said_to() -> None:
    update = STEP_UPDATE._replace(is_checkpointing=False, accumulation=1)
    lever = largest_lever(_step(update=update), _gpu("A100-80GB"), NEEDS, cuts_sampling=True, has_fixed_cut=False)
    assert lever is not None
    assert (lever.setting, lever.keeps) == ("generation.max_completion_length: 256", False)


def test_a_loss_of_micro_batches_keeps_their_size() -> None:
    layout = ALONE._replace(generation="vllm_colocate", vllm_share=0.3)
    step = _step(layout=layout, update=STEP_UPDATE._replace(is_checkpointing=False, batch=1, accumulation=64))
    free, fixed = (
        largest_lever(step, _gpu("H200"), NEEDS, cuts_sampling=False, has_fixed_cut=has) for has in (False, True)
    )
    assert free is not None and free.setting.startswith("training.per_device_train_batch_size: 2")
    assert fixed is None or "batch_size" not in fixed.setting


@pytest.mark.parametrize(
    ("layout", "gathers", "reason"),
    [
        pytest.param(ALONE, True, "", id="known"),
        pytest.param(ALONE._replace(offloads_optimizer=True), True, "offloaded", id="offload"),
        pytest.param(ALONE._replace(generation="vllm_server"), True, "does not start", id="another's server"),
        pytest.param(ALONE._replace(strategy="zero3"), False, "gathers each layer", id="layers gathered for tokens"),
    ],
)
def test_what_has_no_seconds_is_said(layout: Layout, gathers: bool, reason: str) -> None:
    assert reason in why_untimed(layout, WORK, gathers)
    assert bool(why_untimed(layout, WORK, gathers)) == bool(reason)
