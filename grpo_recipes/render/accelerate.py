"""accelerate.yaml: how the processes of the run come to be and what joins them."""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.render.template import fill

DEEPSPEED_STAGES = {"zero1": 1, "zero2": 2, "zero3": 3}
# What each run with FSDP2 had before a recipe could choose it, so that a plan without the section stays what it was.
FSDP = {"reshard_after_forward": True, "cpu_ram_efficient_loading": True}


def accelerate_yaml(plan: Plan) -> str:
    """The text of accelerate.yaml, in the keys of accelerate's own configuration class."""
    world = plan.world
    return fill(
        "accelerate.yaml.j2",
        name=plan.name,
        world=world,
        one_process=starts_one_process(plan),
        distributed_type=_distributed_type(plan),
        fsdp=FSDP | (plan.fsdp or {}),
        zero3_init=DEEPSPEED_STAGES.get(world.strategy) == 3,
        mixed_precision=_mixed_precision(plan),
    )


def starts_one_process(plan: Plan) -> bool:
    """Whether the worker is started directly, without accelerate: one process, nothing to shard."""
    return plan.world.num_processes == 1 and plan.world.strategy in ("single", "ddp")


def _distributed_type(plan: Plan) -> str:
    if plan.world.strategy in DEEPSPEED_STAGES:
        return "DEEPSPEED"
    if plan.world.strategy == "fsdp2":
        return "FSDP"
    return "NO" if starts_one_process(plan) else "MULTI_GPU"


def _mixed_precision(plan: Plan) -> str:
    """What the trainer says as well; TrainingArguments would overrule another word in silence."""
    return next((name for name in ("bf16", "fp16") if plan.arguments.GRPOConfig.get(name)), "no")
