"""Explains an out-of-memory exception: where it happened, how much was requested and in use, and what to change.

torch has a class for a GPU and a text for the CPU, numpy and Python raise MemoryError, the kernel's refusals arrive as
an OSError or inside another text, and vLLM raises ValueError before it allocates. A process that the kernel kills
leaves no exception.
"""

import errno
import gc
import re
import traceback
from pathlib import Path

import torch

from grpo_recipes.contract.findings.finding import Patch, mistake
from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.findings.lost_peer import causes
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Phase
from grpo_recipes.contract.run_record import MICRO_BATCH, ON_OUT_OF_MEMORY
from grpo_recipes.worker.memory.phase_peaks import PhasePeaks
from grpo_recipes.worker.user_code.reward_call import explain_reward

# Of vLLM 0.30 while it starts: v1/worker/utils.py, v1/core/kv_cache_utils.py, v1/worker/gpu_model_runner.py.
_SHARE_IS_TAKEN = re.compile(r"is less than desired GPU memory utilization|out of memory occurred when warming up")
_SHARE_IS_SMALL = re.compile(r"No available memory for the cache blocks")
_CACHE_IS_SMALL = re.compile(
    r"KV cache is needed, which is larger than the available|number of tokens that can be stored"
)
_LONGEST_LENGTH = re.compile(r"estimated maximum model length is (\d+)")
# The second line: torch, the CUDA driver through torch's expandable segments and vLLM's sleep mode, and NCCL.
_OF_MEMORY = re.compile(
    r"DefaultCPUAllocator: (can't allocate|not enough) memory"
    r"|(CUDA|HIP) (driver )?(error: )?out of memory|CUDA Error: out of memory|Cuda failure (\d+ )?'out of memory'"
    r"|CUBLAS_STATUS_ALLOC_FAILED|std::bad_alloc|Cannot allocate memory|\(os error 12\)"
)
_ASKED = re.compile(r"(?:[Tt]ried to allocate|Unable to allocate) (\d+(?:\.\d+)? (?:bytes|[KMGT]i?B))")
_WHERE: dict[Phase, str] = {
    "load": "while loading the model",
    "generate": "while generating completions",
    "score": "while scoring completions",
    "update": "while updating the policy",
    "sync": "while sending weights to vLLM",
    "save": "while saving the model",
    "evaluation": "while answering held-out rows",
    "warm_start": "in the warm start",
}
_OF_A_STEP = ("generate", "score", "update", "sync")
_LONGEST_CAUSE = 300


class OutOfMemory(Mistake):
    """The training ran out of memory. The worker exits with 1, as for every failure of the trainer."""


def out_of_memory(problem: BaseException, plan: Plan, peaks: PhasePeaks, user: Path) -> OutOfMemory | None:
    """Returns the message for a training that ran out of memory, None for any other problem.

    user: the folder of the user's reward files, one of which may have requested the memory. The exception's frames are
    freed first, to have memory for the message.
    """
    cause = next((exception for exception in causes(problem) if is_of_memory(exception)), None)
    if cause is None:
        return None
    for exception in causes(problem):
        traceback.clear_frames(exception.__traceback__)
    gc.collect()
    reward = explain_reward(problem, user)
    asked_by = [] if reward is None else [reward[0].findings[0].message, *reward[0].findings[0].because]
    text = f"{type(cause).__name__}: {' '.join(str(cause).split())}".rstrip(": ")
    asked = _ASKED.search(text)
    if (of_vllm := _vllm_lacks(text, plan)) is not None:
        message, fix = of_vllm
        return OutOfMemory(mistake(message, because=[text[:_LONGEST_CAUSE], _peaks_text(plan, peaks)], fix=fix))
    step = f" in step {peaks.step}" if peaks.phase in _OF_A_STEP else ""
    finding = mistake(
        f"out of memory{step} {_WHERE[peaks.phase]}" + (f": {_size(asked[1])} more were requested" if asked else ""),
        because=[text[:_LONGEST_CAUSE], *asked_by, _peaks_text(plan, peaks)],
        fix=same_experiment(plan, peaks.phase),
    )
    return OutOfMemory(
        finding._replace(
            patch=half_at_once(plan, peaks.phase, peaks.step), notes=(other_experiments(plan, peaks.phase),)
        )
    )


def _size(asked: str) -> str:
    """Returns the requested amount, in MiB if it is in bytes, as torch reports it on the CPU."""
    count, unit = asked.split()
    return f"{float(count) / 2**20:.1f} MiB" if unit == "bytes" else asked


def is_of_memory(problem: BaseException) -> bool:
    """Whether an exception, without its causes, reports that memory ran out, on a GPU or the machine."""
    if isinstance(problem, OSError) and problem.errno == errno.ENOMEM:
        return True
    texts = (_OF_MEMORY, _SHARE_IS_TAKEN, _SHARE_IS_SMALL, _CACHE_IS_SMALL)
    is_of_torch = isinstance(problem, MemoryError | torch.OutOfMemoryError)
    return is_of_torch or any(words.search(str(problem)) for words in texts)


def _vllm_lacks(text: str, plan: Plan) -> tuple[str, str] | None:
    """Returns what vLLM lacks to start, and a fix; None for any other text."""
    share = (
        f"generation.vllm_gpu_memory_utilization (now {plan.arguments.GRPOConfig.get('vllm_gpu_memory_utilization')})"
    )
    if _SHARE_IS_TAKEN.search(text):
        fix = f"a smaller {share}, or auto; or end other programs on this GPU, which nvidia-smi lists"
        return "the GPU has less free memory than vLLM's share", fix
    larger = f"a larger {share}"
    if plan.vllm is not None and plan.vllm.mode == "colocate" and not _sleeps(plan):
        larger += f" with {_SLEEP}, which frees it during the update"
    if _SHARE_IS_SMALL.search(text):
        return "vLLM's share of the GPU leaves no memory for its cache", larger
    if _CACHE_IS_SMALL.search(text):
        length = _LONGEST_LENGTH.search(text)
        most = "a smaller" if length is None else f"at most {length[1]} as"
        return (
            "vLLM's cache is too small for one sequence of the maximum length",
            f"{larger}; or {most} generation.vllm_max_model_length, which must be enough for prompt and completion",
        )
    return None


def _peaks_text(plan: Plan, peaks: PhasePeaks) -> str:
    """Returns each phase's peak memory, and the plan's estimate."""
    parts = []
    peaks.begin(peaks.phase)
    for phase, peak in peaks.peaks.items():
        terms = {} if plan.memory is None else plan.memory.phases.get(phase, {})
        estimated = f" (estimated {gib(sum(terms.values()))})" if terms else ""
        parts.append(f"{phase} {gib(peak.held)}{estimated}")
    estimate = "" if plan.memory is not None else "; the plan has no estimate"
    return f"this process's peak in each phase: {', '.join(parts)}{estimate}"


def gib(count: int) -> str:
    """Returns bytes as text, such as "1.25 GiB"."""
    return f"{count / 2**30:.2f} GiB"


_SLEEP = "trl.vllm_enable_sleep_mode: true"
_SHARDED = ("zero3", "fsdp2")
# The evaluation answers as many rows at a time as a micro-batch has.
_OF_ONE_MICRO_BATCH = ("update", "score", "evaluation", "warm_start")


def same_experiment(plan: Plan, phase: Phase) -> str:
    """Returns the changes that need less memory and keep the experiment, the cheapest first."""
    ways = []
    if phase in _OF_ONE_MICRO_BATCH and plan.batch.micro_batch > 1:
        size = plan.batch.micro_batch
        ways.append(
            f"training.per_device_train_batch_size: {size // 2} (now {size}), which doubles gradient accumulation; "
            "validate reports if that changes the experiment"
        )
    if phase in ("update", "warm_start") and not plan.arguments.GRPOConfig.get("gradient_checkpointing"):
        ways.append("training.gradient_checkpointing: true")
    if phase == "generate" and plan.vllm is not None and plan.vllm.mode == "colocate":
        ways.append("a smaller generation.vllm_gpu_memory_utilization")
    if phase in ("update", "score") and plan.vllm is not None and plan.vllm.mode == "colocate" and not _sleeps(plan):
        ways.append(f"{_SLEEP}, or a smaller generation.vllm_gpu_memory_utilization")
    if phase == "generate" and plan.vllm is None:
        ways.append("more processes (launch.num_processes), so each generates fewer completions at once")
    if plan.world.strategy not in _SHARDED and _learns_the_same_in_shards(plan):
        more = "" if plan.world.num_processes > 1 else " with more processes"
        ways.append(f"distributed.strategy: zero3 or fsdp2{more}, which shards the weights")
    ways.append("a GPU with more memory" if plan.world.device == "cuda" else "more memory")
    return "; or ".join(ways)


def _sleeps(plan: Plan) -> bool:
    """Whether vLLM frees its memory while the policy is updated."""
    return plan.arguments.GRPOConfig.get("vllm_enable_sleep_mode") is True


def _learns_the_same_in_shards(plan: Plan) -> bool:
    """Whether sharding keeps the experiment. DeepSpeed would update float32 copies of half-precision weights."""
    return plan.expect.weights_dtype == "float32" and plan.arguments.BitsAndBytesConfig is None


def half_at_once(plan: Plan, phase: Phase, step: int) -> tuple[Patch, ...]:
    """Returns half the micro-batch if the recipe allows a restart with it, it helps, and nothing was trained yet."""
    asked = any(setting.key == ON_OUT_OF_MEMORY and setting.value == "halve" for setting in plan.settings)
    is_first = phase == "warm_start" or (step == 1 and phase in ("update", "score"))
    if not asked or not is_first or plan.batch.micro_batch % 2:
        return ()
    return (Patch(MICRO_BATCH, plan.batch.micro_batch // 2),)


def other_experiments(plan: Plan, phase: Phase) -> str:
    """Returns the changes that need less memory but change the experiment."""
    ways = []
    if phase != "load":
        ways.append("a smaller generation.max_completion_length")
    if phase == "generate":
        ways.append("fewer prompts_per_step or num_generations")
    if plan.arguments.LoraConfig is None:
        ways.append("a LoRA adapter instead of all weights")
    if plan.arguments.BitsAndBytesConfig is None:
        ways.append("4-bit weights, or model.dtype: bfloat16")
    return f"these also need less memory, but change the experiment: {', '.join(ways)}"
