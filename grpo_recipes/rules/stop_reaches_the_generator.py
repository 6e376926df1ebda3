"""A stop string or stop id reaches the generator and the mask.

TRL offers no way to pass a stop to transformers: `generation_kwargs: {stop_strings: ...}` raises ValueError ("could not
locate a tokenizer"), `stop` is silently ignored, and `eos_token_id` leaves padding tokens in the loss. With vLLM a stop
goes through `generation_kwargs`; TRL counts a completion that ends there as truncated, and drops it with
mask_truncated_completions. The shim `completion_ends` ends each row of a generation at its stop, on every backend, and
makes the mask, the lengths and the share of truncated completions end there too. With mask_truncated_completions it is
there without a stop: since 0.24, TRL trains a truncated completion whose last token is a PAD that the policy wrote. A
stop string that is an added token is also passed to vLLM by its id, since a vLLM whose tokenizer lacks the token never
sees its text. Releases without generation_kwargs cannot pass a stop to vLLM, and continuous batches of transformers do
not support stops.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules.minimum_length_is_the_same_everywhere import kwargs_of_generator

ID = "GEN002"
KWARGS, SHIM = "GRPOConfig.generation_kwargs", "shims.completion_ends"
OWNS = (KWARGS, SHIM)
MASK = "GRPOConfig.mask_truncated_completions"
READS = ("GRPOConfig.use_vllm",)
STOP, STOP_IDS = "generation.stop", "generation.stop_token_ids"
CONTINUOUS = ("GRPOConfig.use_transformers_continuous_batching", "GRPOConfig.use_transformers_paged")


def decide(context: Context) -> Iterator[Setting]:
    stop, ids, kwargs = context.value(STOP), context.value(STOP_IDS), kwargs_of_generator(context)
    why = "generation_kwargs and min_tokens under the generator's own names"
    if stop or ids:
        yield rule_setting(SHIM, True, "TRL ends completions only at the model's own end tokens")
    elif context.value(MASK) is True and _trains_written_pads(context):
        yield rule_setting(SHIM, True, "TRL trains truncated completions whose last token is PAD")
    if (stop or ids) and context.value("GRPOConfig.use_vllm") is True:
        why = "vLLM's own names for generation.stop" + (f"; {why}" if kwargs else "")
        if stop:
            kwargs |= {"stop": stop, "include_stop_str_in_output": True, "skip_special_tokens": False}
        if ids:
            kwargs["stop_token_ids"] = ids
    if kwargs and _has_kwargs(context):
        yield rule_setting(KWARGS, kwargs, why)


def check(context: Context) -> Iterator[Finding]:
    key = next((key for key in (STOP, STOP_IDS) if context.value(key)), None)
    if key is None:
        return
    if context.value("GRPOConfig.use_vllm") is True:
        if not _has_kwargs(context):
            yield _beside_vllm(context, key)
        return
    for name in CONTINUOUS:
        if context.value(name) is True:
            message = f"{key} does not work with continuous batching"
            because = (
                "transformers' generate_batch takes no stopping criteria, so completions would continue after the stop"
            )
            yield context.wrong(message, name, because, False)


def _trains_written_pads(context: Context) -> bool:
    version = context.stack.version("trl")
    return version is None or not is_within(version, "<0.24")


def _beside_vllm(context: Context, key: str) -> Finding:
    return context.wrong(
        f"{key} does not reach vLLM",
        key,
        [
            f"{context.facts.source('GRPOConfig')} has no generation_kwargs, which pass a stop to vLLM",
            "trl 0.19.0 is the first release with generation_kwargs",
        ],
        False,
        at=("generation", "use_vllm"),
        fix="use_vllm: false, or trl 0.19.0 or newer",
    )


def _has_kwargs(context: Context) -> bool:
    """Whether GRPOConfig has generation_kwargs; true if its fields are unknown."""
    fields = context.facts.fields("GRPOConfig")
    return fields is None or "generation_kwargs" in fields
