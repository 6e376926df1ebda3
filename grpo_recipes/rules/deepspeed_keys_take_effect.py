"""Keys under distributed.deepspeed take effect under the strategy, and do not change the experiment or its model.

Many fields of the ZeRO section belong to one stage, and the other stages never read them. DeepSpeed refuses some of
them in other stages when training starts. Summing gradients instead of averaging them multiplies the gradient by the
number of processes and changes the effect of clipping. Without gathered weights, ZeRO-3 saves a model without weights;
an adapter is gathered anyway. Half-precision master weights lose steps that a float32 copy keeps.
"""

from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding, Path, Severity
from grpo_recipes.facts.deepspeed_keys import deepspeed_keys
from grpo_recipes.rules._shared.context import Context

ID = "DSP004"
KEY, STRATEGY = "distributed.deepspeed", "distributed.strategy"
HOME: Path = ("distributed", "deepspeed")
ZERO = "zero_optimization"
GATHER = ("gather_16bit_weights_on_model_save", "stage3_gather_16bit_weights_on_model_save")
OFFLOADS = ("offload_optimizer", "offload_param")
MASTERS = {"bf16": "bf16_master_weights_and_grads", "fp16": "fp16_master_weights_and_grads"}


def check(context: Context) -> Iterator[Finding]:
    keys, strategy = context.mapping(KEY), context.text(STRATEGY)
    if not keys or not strategy.startswith("zero"):
        return
    zero = keys.get(ZERO)
    if isinstance(zero, Mapping):
        yield from _of_another_stage(context, zero, strategy)
        yield from _check_gathering(context, zero, strategy)
        yield from _norm(context, zero, strategy)
        yield from _check_offloading(context, zero, strategy)
    if str(keys.get("gradient_allreduce_op")).lower() == "sum" and context.whole("world.num_processes") > 1:
        because = "the gradient of a step should be the mean over the processes"
        message = "gradient_allreduce_op sum multiplies the gradient by the number of processes"
        yield _finding(context, ("gradient_allreduce_op",), message, because)
    for section, name in MASTERS.items():
        inner = keys.get(section)
        if isinstance(inner, Mapping):
            yield from _masters(context, section, name, inner)


def _finding(
    context: Context, path: Path, message: str, because: str, severity: Severity = "error", instead: object = None
) -> Finding:
    fix = f"remove {'.'.join(map(str, path))}" if instead is None else None
    return context.wrong(message, KEY, because, instead, at=(*HOME, *path), fix=fix, severity=severity)


def _of_another_stage(context: Context, zero: Mapping[str, object], strategy: str) -> Iterator[Finding]:
    for name, strategies in deepspeed_keys().of_stages.items():
        if name in zero and strategy not in strategies:
            message = f"{name} has no effect under {strategy}"
            because = f"DeepSpeed reads it only under {' and '.join(strategies)}"
            yield _finding(context, (ZERO, name), message, because, "warning")


def _check_gathering(context: Context, zero: Mapping[str, object], strategy: str) -> Iterator[Finding]:
    for name in GATHER:
        if strategy == "zero3" and name in zero and zero[name] is not True and not context.has_section("lora"):
            because = "the trainer then saves a model without weights, next to DeepSpeed's shards"
            yield _finding(context, (ZERO, name), f"without {name} the saved model is empty", because, instead=True)


def _norm(context: Context, zero: Mapping[str, object], strategy: str) -> Iterator[Finding]:
    if zero.get("compute_grad_norm") is not False:
        return
    if strategy == "zero3":
        because = "only zero1 and zero2 can do without it; DeepSpeed raises ValidationError"
    elif context.value("GRPOConfig.max_grad_norm"):
        because = "clipping needs it; DeepSpeed raises ValueError unless training.max_grad_norm is 0"
    elif context.text("distributed.offload_optimizer_device") != "none":
        because = "offloaded optimizer states need it; DeepSpeed raises ValueError"
    else:
        return
    yield _finding(
        context,
        (ZERO, "compute_grad_norm"),
        "compute_grad_norm cannot be false: DeepSpeed needs the norm of the gradients",
        because,
    )


def _check_offloading(context: Context, zero: Mapping[str, object], strategy: str) -> Iterator[Finding]:
    for name in OFFLOADS:
        inner = zero.get(name)
        if not isinstance(inner, Mapping) or not inner:
            continue
        ratio = inner.get("ratio")
        if context.text(f"distributed.{name}_device") == "none":
            because = f"distributed.{name}_device is none, and DeepSpeed offloads nothing"
            yield _finding(context, (ZERO, name), f"{name} has settings, but nothing is offloaded", because, "warning")
        elif isinstance(ratio, int | float) and 0 <= ratio < 1 and strategy != "zero3":
            because = "only zero3 can offload a part of the optimizer states; DeepSpeed raises ValidationError"
            yield _finding(context, (ZERO, name, "ratio"), f"ratio {ratio} needs zero3", because)


def _masters(context: Context, section: str, name: str, inner: Mapping[str, object]) -> Iterator[Finding]:
    if inner.get("bf16_optimizer_states") is True and inner.get(name) is not True:
        because = "DeepSpeed fails an assertion when training starts"
        path = (section, "bf16_optimizer_states")
        yield _finding(context, path, f"bf16_optimizer_states needs {name}", because)
    elif inner.get(name) is True:
        message = f"{name} keeps no float32 copy of the weights"
        because = "steps smaller than the last place of a half-precision weight are rounded away"
        yield _finding(context, (section, name), message, because, "warning")
