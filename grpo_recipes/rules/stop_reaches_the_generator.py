"""A stop text or stop id reaches whatever generates.

With vLLM it goes through `generation_kwargs`, with the text that completes the stop kept in the completion. With
transformers generation TRL has no road for a stop text: `generation_kwargs: {stop_strings: ...}` raises ValueError
("could not locate a tokenizer"), `stop` is ignored without a word, and `eos_token_id` there leaves padding tokens in
the loss. So a stop without vLLM is refused.
"""

from collections.abc import Iterator

from grpo_recipes.finding import Finding, Patch
from grpo_recipes.rules.context import Context, decided
from grpo_recipes.settings import Setting

ID = "GEN002"
OWNS = ("GRPOConfig.generation_kwargs",)
ORDER = 30
STOP, STOP_IDS = "generation.stop", "generation.stop_token_ids"


def decide(context: Context) -> Iterator[Setting]:
    stop, ids = context.value(STOP), context.value(STOP_IDS)
    if context.value("GRPOConfig.use_vllm") is not True or not (stop or ids):
        return
    kwargs: dict[str, object] = {}
    if stop:
        kwargs |= {"stop": stop, "include_stop_str_in_output": True}
    if ids:
        kwargs["stop_token_ids"] = ids
    yield decided(OWNS[0], kwargs, ID, "vLLM's own names for generation.stop", context.settings)


def check(context: Context) -> Iterator[Finding]:
    for key in (STOP, STOP_IDS):
        if not context.value(key):
            continue
        if context.value("GRPOConfig.use_vllm") is not True:
            yield context.finding(
                ID,
                f"{key} does not reach transformers generation",
                key,
                because=[
                    "this run generates with transformers: "
                    + (context.settings["GRPOConfig.use_vllm"].why or "use_vllm is false"),
                    "TRL hands no tokenizer to generate, so stop texts raise there or are ignored",
                ],
                fix="use_vllm: true, or remove the stop",
                patch=[Patch(("generation", key.partition(".")[2]), remove=True)],
            )
        elif context.value("GRPOConfig.mask_truncated_completions") is True:
            yield context.finding(
                ID,
                f"{key} and mask_truncated_completions exclude each other",
                "GRPOConfig.mask_truncated_completions",
                because=["TRL takes a completion that does not end with eos for a truncated one and drops it"],
                fix="mask_truncated_completions: false",
                patch=[Patch(("grpo", "mask_truncated_completions"), False)],
            )
            return
