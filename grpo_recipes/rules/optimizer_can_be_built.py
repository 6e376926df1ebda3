"""The trainer can build the optimizer: its package, its modules and a suitable number of processes.

Most values of `optim` need a package that nothing else needs. The trainer imports it when it creates the optimizer,
after loading the model. GaLore and APOLLO project the gradients of chosen modules and need a list of them. Their
layerwise forms step inside the backward pass, so they support neither accumulated gradients nor several processes.
FSDP2 makes every parameter a DTensor, and no optimizer of bitsandbytes can step on those, in 8 bits or in 32.
`optim_args` is one string, "name=value,name=value". A different form raises ValueError at the same late moment, and a
name that the optimizer does not know is silently ignored.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import command_for, package_of

ID = "TRN001"
OPTIM, ARGS, TARGETS = "GRPOConfig.optim", "GRPOConfig.optim_args", "GRPOConfig.optim_target_modules"
ACCUMULATION = "GRPOConfig.gradient_accumulation_steps"
LOW_RANK = ("galore", "apollo")
OTHER_HARDWARE = {"adamw_torch_xla": "a TPU", "adamw_torch_npu_fused": "an Ascend NPU"}


def check(context: Context) -> Iterator[Finding]:
    optim = context.text(OPTIM)
    if optim in OTHER_HARDWARE:
        because = "on a GPU or the CPU, the trainer raises ValueError after loading the model"
        yield context.wrong(f"{optim} needs {OTHER_HARDWARE[optim]}", OPTIM, because, "adamw_torch_fused")
        return
    if package_of(optim) == "bitsandbytes" and context.value("distributed.strategy") == "fsdp2":
        because = "its kernels do not take DTensors, and torch raises RuntimeError or NotImplementedError at step 1"
        yield context.wrong(f"optim {optim} cannot step under fsdp2", OPTIM, because, "adamw_torch_fused")
        return
    yield from _package(context, optim)
    yield from _target_modules(context, optim)
    if optim.endswith("_layerwise"):
        yield from _layerwise(context, optim)
    if context.value(ARGS):
        yield from _args(context, optim, context.text(ARGS))


def _package(context: Context, optim: str) -> Iterator[Finding]:
    package = package_of(optim)
    if package is None:
        return
    if not context.stack.is_known(package):
        because = [f"{context.stack.origin} does not say"]
        message = f"not checked: whether {package}, which {optim} needs, is installed"
        yield context.not_checked(message, OPTIM, because)
    elif context.stack.is_absent(package):
        install = command_for(context.stack, [package], "quantization" if package == "bitsandbytes" else "")
        message = f"optim {optim} needs {package}, which is not installed"
        why = "the trainer raises ImportError after loading the model"
        yield context.finding(message, OPTIM, why, fix=f"{install}, or optim: adamw_torch_fused")


def _target_modules(context: Context, optim: str) -> Iterator[Finding]:
    targets = context.value(TARGETS)
    if not optim.startswith(LOW_RANK):
        if context.is_given(TARGETS) and targets is not None:
            text = f"optim_target_modules has no effect on optim {optim}"
            yield context.wrong(text, TARGETS, "only GaLore and APOLLO read optim_target_modules", severity="warning")
    elif not isinstance(targets, str | list) or not targets:
        text = f"optim {optim} needs optim_target_modules"
        because = "without them, the trainer raises ValueError after loading the model"
        yield context.wrong(
            text, OPTIM if targets is None else TARGETS, because, "all-linear", at=("trl", "optim_target_modules")
        )


def _layerwise(context: Context, optim: str) -> Iterator[Finding]:
    processes, steps = context.whole("world.num_processes"), context.whole(ACCUMULATION)
    if processes > 1:
        reason = f"{processes} processes"
    elif steps > 1:
        reason = f"{steps} micro-batches in a step"
    else:
        return
    whole = optim.removesuffix("_layerwise")
    because = "it steps inside the backward pass, and the trainer raises when it creates the optimizer"
    yield context.wrong(f"optim {optim} does not support {reason}", OPTIM, because, whole)


def _args(context: Context, optim: str, text: str) -> Iterator[Finding]:
    parts, arguments = text.replace(" ", "").split(","), table("trainer_words")["optimizer_arguments"]
    if any(part.count("=") != 1 for part in parts):
        message = f"optim_args {text} is not name=value,name=value"
        because = "the trainer raises ValueError after loading the model"
        yield context.finding(message, ARGS, because, fix=f'optim_args: "{(arguments.get(optim) or ("name",))[0]}=..."')
        return
    if optim.startswith("rmsprop_bnb"):
        because = "bitsandbytes gets them as strings and raises TypeError"
        yield context.wrong(f"optim {optim} does not take optim_args", ARGS, because)
        return
    fitting = [start for start in arguments if optim.startswith(start)]
    read = arguments[max(fitting, key=len)] if fitting else ()
    unread = [part for part in parts if part.partition("=")[0] not in read]
    if unread:
        remaining = ",".join(part for part in parts if part not in unread)
        message = f"optim {optim} does not read {', '.join(part.partition('=')[0] for part in unread)}"
        why = f"it reads {', '.join(read)}" if read else "it does not read optim_args"
        fix = f'optim_args: "{remaining}"' if remaining else "remove optim_args"
        yield context.wrong(message, ARGS, why, remaining or None, severity="warning", fix=fix)
