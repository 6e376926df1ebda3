"""What takes less memory in a phase of a training: without a different experiment, and with one."""

from grpo_recipes.contract.findings.finding import Patch
from grpo_recipes.contract.halved import MICRO_BATCH, ON_OUT_OF_MEMORY
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.planned_memory import Phase

_SHARDED = ("zero3", "fsdp2")
# The evaluation answers as many rows at a time as a micro-batch has.
_OF_ONE_MICRO_BATCH = ("update", "score", "evaluation")


def same_experiment(plan: Plan, phase: Phase) -> str:
    """The ways out that train the same, the cheapest first."""
    ways = []
    if phase in _OF_ONE_MICRO_BATCH and plan.batch.micro_batch > 1:
        size = plan.batch.micro_batch
        ways.append(
            f"training.per_device_train_batch_size: {size // 2} (now {size}), from which accumulation follows; "
            "validate says where that would be a different experiment"
        )
    if phase == "update" and not plan.arguments.GRPOConfig.get("gradient_checkpointing"):
        ways.append("training.gradient_checkpointing: true")
    if phase == "generate" and plan.vllm is not None and plan.vllm.mode == "colocate":
        ways.append("a smaller generation.vllm_gpu_memory_utilization")
    if phase == "generate" and plan.vllm is None:
        ways.append("more processes (launch.num_processes), each of which then makes fewer completions at once")
    if plan.world.strategy not in _SHARDED and _learns_the_same_in_shards(plan):
        more = "" if plan.world.num_processes > 1 else " with more processes"
        ways.append(f"distributed.strategy: zero3 or fsdp2{more}, which shares the weights out")
    ways.append("a GPU with more memory" if plan.world.device == "cuda" else "more memory")
    return "; or ".join(ways)


def _learns_the_same_in_shards(plan: Plan) -> bool:
    """Whether shards leave the experiment as it is: DeepSpeed updates float32 copies of half-precision weights."""
    return plan.expect.weights_dtype == "float32" and plan.arguments.BitsAndBytesConfig is None


def half_at_once(plan: Plan, phase: Phase, step: int) -> tuple[Patch, ...]:
    """The micro-batch that the run may begin anew with, by its recipe, where nothing was trained yet and it helps."""
    asked = any(setting.key == ON_OUT_OF_MEMORY and setting.value == "halve" for setting in plan.settings)
    if not asked or step != 1 or phase not in ("update", "score") or plan.batch.micro_batch % 2:
        return ()
    return (Patch(MICRO_BATCH, plan.batch.micro_batch // 2),)


def other_experiments(plan: Plan, phase: Phase) -> str:
    """What takes less memory and trains something else."""
    ways = []
    if phase != "load":
        ways.append("a smaller generation.max_completion_length")
    if phase == "generate":
        ways.append("fewer prompts_per_step or num_generations")
    if plan.arguments.LoraConfig is None:
        ways.append("a LoRA adapter instead of all weights")
    if plan.arguments.BitsAndBytesConfig is None:
        ways.append("4-bit weights, or model.dtype: bfloat16")
    return f"these take less too and are a different experiment: {', '.join(ways)}"
