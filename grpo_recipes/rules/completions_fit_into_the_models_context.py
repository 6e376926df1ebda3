"""The model has a position for each token of a prompt and its completion.

A model with learned positions (GPT-2, OPT, GPT-Neo, GPT-BigCode) raises IndexError as soon as a completion exceeds
them, in the middle of a run. A model with rotary positions continues beyond its context (measured with Qwen2, Llama and
Mistral): transformers warns once in the log, and the model writes text that it was never trained to write. For vLLM's
context see GEN009.
"""

from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import MODEL, model_config

ID = "GEN013"
COMPLETION, PROMPT = "GRPOConfig.max_completion_length", "GRPOConfig.max_prompt_length"
# Families with a table of positions, and the name of its length in their config.json.
LEARNED = {
    "gpt2": "n_positions",
    "gpt_bigcode": "n_positions",
    "gpt_neo": "max_position_embeddings",
    "opt": "max_position_embeddings",
}


def check(context: Context) -> Iterator[Finding]:
    if context.value("GRPOConfig.use_vllm") is True:
        return
    config = model_config(context)
    if config is None:
        return
    name = LEARNED.get(str(config.get("model_type")))
    positions = config.get(name or "max_position_embeddings")
    if not isinstance(positions, int) or _is_stretched(config):
        return
    completion, prompt = context.whole(COMPLETION), context.value(PROMPT)
    rest = prompt if isinstance(prompt, int) else 1
    if completion + rest <= positions:
        return
    ends = "a completion that exceeds them ends the run with IndexError"
    goes_on = "the model continues beyond them, where it was not trained; transformers warns once in the log"
    better = positions - rest
    yield context.finding(
        f"{context.text(MODEL)} has {positions} positions, fewer than the longest prompt and completion",
        COMPLETION,
        [
            f"{completion + rest} = max_completion_length {completion} + {rest} prompt token{'' if rest == 1 else 's'}",
            ends if name else goes_on,
        ],
        fix=None if better > 0 else f"max_prompt_length below {positions}",
        patch=[Patch(("generation", "max_completion_length"), better)] if better > 0 else [],
        severity="error" if name else "warning",
    )


def _is_stretched(config: Mapping[str, object]) -> bool:
    """Whether rotary positions are scaled; for others transformers 5 writes `rope_parameters` of the type default."""
    for name in ("rope_scaling", "rope_parameters"):
        value = config.get(name)
        kinds = _rope_types(value) if isinstance(value, dict) else [] if value is None else [None]
        if any(kind != "default" for kind in kinds):
            return True
    return False


def _rope_types(value: Mapping[str, object]) -> list[object]:
    """The type of the positions, or those of each kind of layer."""
    layers: list[Mapping[str, object]] = [layer for layer in value.values() if isinstance(layer, dict)]
    return [layer.get("rope_type", layer.get("type", "default")) for layer in layers or [value]]
