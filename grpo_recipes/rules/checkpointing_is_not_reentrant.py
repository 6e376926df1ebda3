"""Gradient checkpointing sets use_reentrant: false, or true for an adapter under ZeRO-3.

With reentrant checkpointing and a frozen base no input of a checkpointed block needs a gradient, and the backward pass
fails with "element 0 of tensors does not require grad" unless some layer enables gradients on the inputs. Which layer
does so changed in every other release. `use_reentrant: false` works on all of them and gives the same numbers. PEFT
with DeepSpeed's ZeRO-3 needs true; TRL 1.9 and later force it. DDP that searches for unused parameters does not see
those of a reentrant block, and fails when their gradients come.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.findings.wording import entry, flow, nearest_words
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "LRA001"
CHECKPOINTING = "GRPOConfig.gradient_checkpointing"
KWARGS = "GRPOConfig.gradient_checkpointing_kwargs"
UNUSED = "GRPOConfig.ddp_find_unused_parameters"
OWNS = (KWARGS,)
ARGUMENTS = {"use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop"}
READS = ("GRPOConfig.gradient_checkpointing", "distributed.strategy")


def _reentrant(context: Context) -> bool:
    return context.has_section("lora") and context.value("distributed.strategy") == "zero3"


def _marks_twice(context: Context) -> bool:
    """Whether DDP takes the parameters in checkpointed blocks for unused, and then gets their gradients."""
    return context.value("distributed.strategy") == "ddp" and context.value(UNUSED) is True


def decide(context: Context) -> Iterator[Setting]:
    if context.value(CHECKPOINTING) is not True or context.value(KWARGS) is not None:
        return
    reentrant = _reentrant(context)
    why = "an adapter under ZeRO-3 needs it" if reentrant else "works with a frozen base on every release"
    yield rule_setting(KWARGS, {"use_reentrant": reentrant}, why)


def check(context: Context) -> Iterator[Finding]:
    kwargs = context.mapping(KWARGS)
    if context.value(CHECKPOINTING) is not True or not context.is_given(KWARGS):
        return
    unknown = sorted(kwargs.keys() - ARGUMENTS)
    for name in unknown:
        path = ("training", "gradient_checkpointing_kwargs", name)
        text = f"torch's checkpoint has no argument {name}"
        because = (
            "the first forward pass raises ValueError, or, with use_reentrant false, passes it to a layer that raises"
        )
        meant = [word for word in nearest_words(name, ARGUMENTS, cutoff=0.7) if word not in kwargs]
        fix = entry((meant[0],), flow(kwargs[name])) if meant else None
        patch = [Patch(path, remove=True), *(Patch((*path[:-1], word), kwargs[name]) for word in meant)]
        yield context.finding(text, KWARGS, because, fix=fix, patch=patch)
    if not unknown:
        yield from _use_reentrant(context, kwargs.get("use_reentrant"))


def _use_reentrant(context: Context, value: object) -> Iterator[Finding]:
    path = ("training", "gradient_checkpointing_kwargs", "use_reentrant")
    if value is None:
        right = _reentrant(context)
        message = "gradient_checkpointing_kwargs lacks use_reentrant"
        because = "torch then takes true, and warns that a later release will raise"
        yield context.wrong(message, KWARGS, because, right, at=path, severity="warning")
    elif value is True and context.mapping(KWARGS).get("debug"):
        message = "debug needs use_reentrant false"
        because = "torch raises ValueError for it at the first forward pass"
        yield context.wrong(message, KWARGS, because, False, at=path, mark=context.mark(KWARGS))
    elif value is True and _marks_twice(context):
        message = "use_reentrant true does not go with ddp_find_unused_parameters true"
        because = "torch raises RuntimeError in the first backward pass: Expected to mark a variable ready only once"
        yield context.wrong(message, KWARGS, because, False, at=path, mark=context.mark(KWARGS))
    elif value is False and _reentrant(context):
        message = "use_reentrant must be true for an adapter under ZeRO-3"
        why = "ZeRO-3 gathers frozen parameters again in the backward pass; TRL 1.9 and later set it to true"
        fix = "gradient_checkpointing_kwargs: {use_reentrant: true}"
        yield context.wrong(message, KWARGS, why, True, at=path, severity="warning", fix=fix, mark=context.mark(KWARGS))
