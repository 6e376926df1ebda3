"""Memory that cannot be had is said by phase and step, with what each phase held and what to change.

The limits are real: each training runs in a process that the kernel gives no more to.
"""

import gc
from collections.abc import Callable
from pathlib import Path

import pytest
from support.plans import small_plan
from test_phase_peaks import estimates
from worker_runs import Changes, Trained

from grpo_recipes.contract.plan_machine import Arguments
from grpo_recipes.contract.plan_sections import Vllm
from grpo_recipes.worker.memory.out_of_memory import is_of_memory, out_of_memory
from grpo_recipes.worker.memory.phase_peaks import PhasePeaks, ResidentMemory

pytestmark = pytest.mark.stack
# A loss of 512 completions of 100 tokens keeps about 1 GB of activations, their cache is a twentieth of it.
MANY = {"per_device_train_batch_size": 512, "max_completion_length": 100, "generation_kwargs": {"min_new_tokens": 100}}
ASKS = """
def digits(completions, **kwargs):
    digits.calls += 1
    held = bytearray(10**15 if digits.calls == 3 else 1)
    return [float(len(completion[0]["content"]) % 2) for completion in completions]

digits.calls = 0
"""


def large(make_plan: Callable[..., Changes], **sections: object) -> Changes:
    """A plan whose update is much larger than the rest."""
    plan = make_plan(arguments=MANY, **sections)
    plan["batch"] |= {"micro_batch": 512, "prompts": 64}
    plan["expect"]["arguments"] = {"beta": 0.0}
    return plan


def test_a_training_that_fits_says_nothing(make_plan: Callable[..., Changes], trained: Callable[..., Trained]) -> None:
    run = trained(make_plan(), "little_memory")
    assert run.exit_code == 0, run.output
    assert "out of memory" not in run.output


def test_an_update_that_does_not_fit_is_said_with_what_was_held_and_what_to_change(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    asked = {"key": "training.on_out_of_memory", "value": "halve", "origin": "line 1", "kind": "machine"}
    settings = [{**asked, "why": "", "recipe_key": asked["key"]}]
    run = trained(large(make_plan, memory=estimates(update=1000), settings=settings), "little_memory")
    assert run.exit_code == 1, run.output
    assert [patch["value"] for patch in run.record["findings"][0]["patch"]] == [256]
    assert (run.record["status"], run.record["exit_code"], run.record["step"]) == ("failed", 1, 0)
    (finding,) = run.record["findings"]
    assert finding["message"].startswith("out of memory in step 1 while updating the policy: ")
    assert finding["message"].endswith(" MiB more were requested")
    assert "DefaultCPUAllocator" in finding["because"][0]
    assert "(estimated 0.98 GiB)" in finding["because"][1]
    assert finding["because"][1].startswith("this process's peak in each phase: load ")
    assert "training.per_device_train_batch_size: 256 (now 512)" in finding["fix"]
    assert "training.gradient_checkpointing: true" in finding["fix"]
    assert "but change the experiment" in finding["notes"][0]
    assert run.record["message"] in run.output
    assert "Traceback" not in run.output
    assert run.record["memory"]["update"]["measured"] > run.record["memory"]["generate"]["measured"]
    assert run.record["memory"]["update"]["estimated"] == 1000 << 20


def test_generation_that_does_not_fit_is_told_from_the_update(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    run = trained(large(make_plan), "little_memory_for_completions")
    assert run.exit_code == 1, run.output
    (finding,) = run.record["findings"]
    assert finding["message"].startswith("out of memory in step 1 while generating completions")
    assert "per_device_train_batch_size" not in finding["fix"]
    assert finding["patch"] == []
    assert "the plan has no estimate" in finding["because"][1]


def test_a_reward_that_asks_for_too_much_is_named_with_its_line_and_the_step(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], sha256_of_text: Callable[[str], str]
) -> None:
    file = {"kind": "python", "target": "rewards.py:digits", "path": "/rewards.py", "sha256": sha256_of_text(ASKS)}
    reward = {"name": "digits", "weight": 1.0, "kwargs": {}, "imports": {}, "package": None, "not_of": [], **file}
    run = trained(make_plan(rewards=[reward]), user={"rewards.py": ASKS})
    assert run.exit_code == 1, run.output
    (finding,) = run.record["findings"]
    assert finding["message"] == "out of memory in step 3 while scoring completions"
    assert finding["because"][:2] == ["MemoryError", "reward digits raised MemoryError"]
    assert finding["because"][2].startswith("rewards.py:4: held = ")


def test_another_error_keeps_its_own_words(make_plan: Callable[..., Changes], trained: Callable[..., Trained]) -> None:
    run = trained(make_plan(arguments={"optim": "no_such_optimizer"}))
    assert run.exit_code == 1
    assert "Traceback" in run.output
    assert "out of memory" not in run.output


@pytest.fixture(scope="module")
def little_garbage() -> None:
    """Leaves what was imported out of the collection before each message, which takes most of a second otherwise."""
    gc.freeze()


SHARE = {"vllm_gpu_memory_utilization": 0.3}
# As vllm 0.30.0 says it: request_memory, _check_enough_kv_cache_memory, _dummy_sampler_run.
VLLM_SAYS = [
    (
        "Free memory on device cuda:0 (20.1/79.2 GiB) on startup is less than desired GPU memory utilization (0.3, "
        "23.8 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        "the GPU has less free memory than vLLM's share",
        "a smaller generation.vllm_gpu_memory_utilization (now 0.3)",
    ),
    (
        "CUDA out of memory occurred when warming up sampler with 256 dummy requests. Please try lowering "
        "`max_num_seqs` or `gpu_memory_utilization` when initializing the engine.",
        "the GPU has less free memory than vLLM's share",
        "a smaller generation.vllm_gpu_memory_utilization (now 0.3)",
    ),
    (
        "No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
        "leaves no memory for its cache",
        "a larger generation.vllm_gpu_memory_utilization (now 0.3) with trl.vllm_enable_sleep_mode: true",
    ),
    (
        "To serve at least one request with the model's max seq len (32768), (7.0 GiB KV cache is needed, which is "
        "larger than the available KV cache memory (5.5 GiB). Based on the available memory, the estimated maximum "
        "model length is 25740. Try increasing `gpu_memory_utilization`",
        "is too small for one sequence of the maximum length",
        "or at most 25740 as generation.vllm_max_model_length",
    ),
]


@pytest.mark.usefixtures("little_garbage")
@pytest.mark.parametrize(("text", "message", "fix"), VLLM_SAYS, ids=[message for _, message, _ in VLLM_SAYS])
def test_vllm_that_cannot_start_says_what_to_change(text: str, message: str, fix: str, tmp_path: Path) -> None:
    vllm = Vllm("colocate", "bfloat16")
    plan = small_plan(arguments=Arguments(GRPOConfig={"max_steps": 2, **SHARE}, model_init_kwargs={}), vllm=vllm)
    told = out_of_memory(ValueError(text), plan, PhasePeaks(ResidentMemory(), {}), tmp_path)
    assert told is not None
    (finding,) = told.findings
    assert message in finding.message and fix in str(finding.fix)
    assert finding.because[0].startswith(f"ValueError: {text[:40]}")


@pytest.mark.usefixtures("little_garbage")
@pytest.mark.parametrize(
    "text",
    [
        "CUDA driver error: out of memory",
        "CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
        "NCCL error in: NCCLUtils.cpp:77, unhandled cuda error\nLast error:\nCuda failure 2 'out of memory'",
        "Last error:\nCuda failure 'out of memory'",
    ],
)
def test_memory_that_the_driver_refuses_is_understood(text: str, tmp_path: Path) -> None:
    assert is_of_memory(RuntimeError(text))
    vllm = Vllm("colocate", "bfloat16")
    peaks = PhasePeaks(ResidentMemory(), {})
    peaks.begin("update")
    told = out_of_memory(RuntimeError(text), small_plan(vllm=vllm), peaks, tmp_path)
    assert told is not None and "while updating the policy" in str(told)
    assert "trl.vllm_enable_sleep_mode: true" in str(told.findings[0].fix)
