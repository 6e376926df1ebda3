"""The minimum length of completions means the same on every backend.

`generation.min_tokens` keeps the model's end tokens out of the first tokens of a completion: vLLM calls it min_tokens,
transformers min_new_tokens, and TRL passes both on since 0.19. With a stop the two backends differ. Within that many
tokens, vLLM does not search for stop strings and never samples stop ids, and it does not check them afterwards, so a
completion continues past its stop. With transformers, a completion ends at its stop, however short it is. vLLM refuses
a minimum above max_completion_length with an error, and transformers then never ends a completion. If both lengths are
equal, no completion has an end token, and mask_truncated_completions removes all of them: the gradient is 0. So it
does where `ignore_eos` lets no completion end.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "GEN011"
LEAST = "generation.min_tokens"
LONGEST = "GRPOConfig.max_completion_length"
MASK = "GRPOConfig.mask_truncated_completions"
STOPS = ("generation.stop", "generation.stop_token_ids")


def kwargs_of_generator(context: Context) -> dict[str, object]:
    """generation_kwargs of a recipe and its min_tokens, by the names of this run's generator."""
    kwargs = dict(context.mapping("generation.generation_kwargs"))
    least = context.value(LEAST)
    if least is not None:
        kwargs["min_tokens" if context.value("GRPOConfig.use_vllm") is True else "min_new_tokens"] = least
    return kwargs


def check(context: Context) -> Iterator[Finding]:
    least = context.value(LEAST)
    is_masked = context.value(MASK) is True
    if is_masked and context.mapping("generation.generation_kwargs").get("ignore_eos") is True:
        yield _all_masked(context, "generation.generation_kwargs", "ignore_eos lets no completion end")
    if not isinstance(least, int):
        return
    fields, stop = context.facts.fields("GRPOConfig"), next((key for key in STOPS if context.value(key)), None)
    if fields is not None and "generation_kwargs" not in fields:
        message = f"{context.facts.source('GRPOConfig')} does not pass min_tokens on"
        yield context.wrong(message, LEAST, "trl 0.19.0 is the first release with generation_kwargs")
    elif stop is not None:
        why = "vLLM continues past an earlier stop and transformers ends there, so the backends differ"
        yield context.wrong(f"min_tokens cannot be combined with {stop.partition('.')[2]}", LEAST, why)
    elif least > context.whole(LONGEST):
        why = f"max_completion_length is {context.whole(LONGEST)}: {context.origin(LONGEST)}"
        better = context.whole(LONGEST) - is_masked or None
        yield context.wrong(f"min_tokens {least} exceeds max_completion_length", LEAST, why, better)
    elif is_masked and least == context.whole(LONGEST):
        yield _all_masked(context, LEAST, f"min_tokens and max_completion_length are {least}, so none ends before")


def _all_masked(context: Context, key: str, why: str) -> Finding:
    message = "mask_truncated_completions removes every completion from the loss"
    return context.wrong(message, key, [why, "the gradient is 0, so nothing is trained"], False, at=("grpo", MASK[11:]))
