"""The strategy can offload what the recipe offloads.

Only DeepSpeed offloads. Only ZeRO-3 offloads parameters: the other stages silently ignore the key. Optimizer states on
nvme need ZeRO-3 too, otherwise they silently stay in memory; nvme needs a path. For offloaded optimizer states
accelerate replaces any optimizer by DeepSpeed's CPU Adam, and passes on only the learning rate and the weight decay:
betas and epsilon are lost. `zero_force_ds_cpu_optimizer: false` keeps the recipe's optimizer. On the CPU offloading
saves nothing, and DeepSpeed compiles that optimizer when the run starts.
"""

from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "DSP002"
OPTIMIZER, PARAMETERS = "distributed.offload_optimizer_device", "distributed.offload_param_device"
EXTRA, FORCE = "distributed.deepspeed", "zero_force_ds_cpu_optimizer"
# Optimizers that accelerate replaces by the same algorithm, and the betas and epsilon of DeepSpeed's own.
SAME_ALGORITHM = ("adamw_torch", "adamw_torch_fused")
ITS_OWN = {"adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8}


def check(context: Context) -> Iterator[Finding]:
    offloaded = [key for key in (OPTIMIZER, PARAMETERS) if context.text(key) != "none"]
    if not context.text("distributed.strategy").startswith("zero"):
        yield from _without_deepspeed(context, offloaded)
        return
    for key in offloaded:
        yield from _impossible(context, key) or _without_path(context, key)
    if OPTIMIZER in offloaded and context.value("world.device") == "cuda":
        yield from _find_replaced_optimizer(context)


def _without_deepspeed(context: Context, offloaded: list[str]) -> Iterator[Finding]:
    strategy = context.text("distributed.strategy")
    for key in [*offloaded, *([EXTRA] if context.mapping(EXTRA) else [])]:
        name = key.partition(".")[2]
        message = f"{name} needs DeepSpeed, but the strategy is {strategy}"
        because = "only zero1, zero2 and zero3 read it"
        stage = "zero3" if key == PARAMETERS or context.value(key) == "nvme" else "zero2"
        fix = f"strategy: {stage}, or remove {name}"
        yield context.wrong(message, key, because, stage, at=("distributed", "strategy"), fix=fix)


def _impossible(context: Context, key: str) -> list[Finding]:
    """At most one finding: the first reason why nothing is offloaded."""
    strategy, device = context.text("distributed.strategy"), context.text(key)
    if context.value("world.device") == "cpu":
        message = f"{key.partition('.')[2]} {device} has no effect on the CPU"
        why = "it saves no memory, and DeepSpeed compiles its CPU optimizer when the run starts"
    elif key == PARAMETERS and strategy != "zero3":
        message = f"offload_param_device needs zero3, but the strategy is {strategy}"
        why = "the other stages silently keep whole parameters on the GPU"
    elif key == OPTIMIZER and device == "nvme" and strategy != "zero3":
        message = f"optimizer states on nvme need zero3, but the strategy is {strategy}"
        why = "the other stages silently keep them in memory"
    else:
        return []
    return [context.wrong(message, key, why, "none")]


def _without_path(context: Context, key: str) -> list[Finding]:
    section = key.partition(".")[2].removesuffix("_device")
    zero = context.mapping(EXTRA).get("zero_optimization")
    inner = zero.get(section) if isinstance(zero, Mapping) else None
    if context.text(key) != "nvme" or (isinstance(inner, Mapping) and inner.get("nvme_path")):
        return []
    return [
        context.finding(
            f"{key.partition('.')[2]} nvme needs an nvme_path",
            key,
            "DeepSpeed fails when it loads the model or creates the optimizer",
            fix=f"deepspeed: {{zero_optimization: {{{section}: {{nvme_path: /local_nvme}}}}}}",
        )
    ]


def _find_replaced_optimizer(context: Context) -> Iterator[Finding]:
    if context.mapping(EXTRA).get(FORCE) is False:
        return
    optim = context.text("GRPOConfig.optim")
    lost = [name for name, own in ITS_OWN.items() if context.value(f"GRPOConfig.{name}") != own]
    if optim not in SAME_ALGORITHM:
        what = f"optim {optim} is replaced by Adam"
        why = "accelerate uses DeepSpeed's CPU Adam instead of any optimizer"
    elif lost:
        what = f"{', '.join(lost)} would be lost"
        why = "accelerate passes only the learning rate and the weight decay to DeepSpeed's CPU Adam"
    else:
        return
    message = f"{what} when its states are offloaded"
    yield context.wrong(
        message, OPTIMIZER, why, False, at=("distributed", "deepspeed", FORCE), fix=f"deepspeed: {{{FORCE}: false}}"
    )
