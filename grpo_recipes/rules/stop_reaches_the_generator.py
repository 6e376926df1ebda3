"""A stop text or stop id reaches whatever generates, and the mask.

TRL has no road for a stop to transformers generation: `generation_kwargs: {stop_strings: ...}` raises ValueError
("could not locate a tokenizer"), `stop` is ignored without a word, and `eos_token_id` there leaves padding tokens in
the loss. The shim `completion_ends` ends each row of a generation at its stop, and lets the mask, the lengths and the
share of truncated completions that TRL computes end there too. With vLLM a stop goes through `generation_kwargs`, with
the text that completes it kept in the completion; releases without that field have no road at all, and a stopped
completion counts as truncated. Batches that transformers generates continuously know no stop.
"""

from collections.abc import Iterator

from grpo_recipes.finding import Finding, Patch
from grpo_recipes.rules.context import Context, decided
from grpo_recipes.settings import Setting

ID = "GEN002"
KWARGS, SHIM = "GRPOConfig.generation_kwargs", "shims.completion_ends"
OWNS = (KWARGS, SHIM)
ORDER = 30
STOP, STOP_IDS = "generation.stop", "generation.stop_token_ids"
MASKED = "GRPOConfig.mask_truncated_completions"
CONTINUOUS = ("GRPOConfig.use_transformers_continuous_batching", "GRPOConfig.use_transformers_paged")


def decide(context: Context) -> Iterator[Setting]:
    stop, ids = context.value(STOP), context.value(STOP_IDS)
    if not (stop or ids):
        return
    yield decided(SHIM, True, ID, "TRL ends completions at the model's own end tokens alone", context.settings)
    if context.value("GRPOConfig.use_vllm") is not True or not _reaches_vllm(context):
        return
    kwargs: dict[str, object] = {}
    if stop:
        kwargs |= {"stop": stop, "include_stop_str_in_output": True, "skip_special_tokens": False}
    if ids:
        kwargs["stop_token_ids"] = ids
    yield decided(KWARGS, kwargs, ID, "vLLM's own names for generation.stop", context.settings)


def check(context: Context) -> Iterator[Finding]:
    key = next((key for key in (STOP, STOP_IDS) if context.value(key)), None)
    if key is None:
        return
    if context.value("GRPOConfig.use_vllm") is True:
        yield from _with_vllm(context, key)
        return
    for name in CONTINUOUS:
        if context.value(name) is True:
            yield _in_continuous_batches(context, key, name)


def _with_vllm(context: Context, key: str) -> Iterator[Finding]:
    if not _reaches_vllm(context):
        yield context.finding(
            ID,
            f"{key} does not reach vLLM",
            key,
            because=[
                f"{context.facts.source('GRPOConfig')} has no generation_kwargs, through which TRL hands a stop on",
                "trl 0.19.0 is the first that has them",
            ],
            fix="use_vllm: false, or trl 0.19.0 or newer",
            patch=[Patch(("generation", "use_vllm"), False)],
        )
    elif context.value(MASKED) is True:
        yield context.finding(
            ID,
            f"{key} and mask_truncated_completions exclude each other with vLLM",
            MASKED,
            because=["TRL takes a completion that does not end with eos for a truncated one and drops it"],
            fix="mask_truncated_completions: false",
            patch=[Patch(("grpo", "mask_truncated_completions"), False)],
        )


def _in_continuous_batches(context: Context, key: str, name: str) -> Finding:
    return context.finding(
        ID,
        f"{key} does not reach continuous batches of transformers",
        name,
        because=["generate_batch takes no stopping criteria: a completion would go on after its stop"],
        fix=f"{name.partition('.')[2]}: false",
        patch=[Patch(("trl", name.partition(".")[2]), False)],
    )


def _reaches_vllm(context: Context) -> bool:
    """Whether GRPOConfig has generation_kwargs; true when its fields are not known."""
    fields = context.facts.fields("GRPOConfig")
    return fields is None or "generation_kwargs" in fields
