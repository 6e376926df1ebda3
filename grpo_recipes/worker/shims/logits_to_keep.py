"""Makes a model compute only the completion's logits if TRL and the model's class name the keyword differently.

Defect: TRL scores the last C + 1 positions and requests their logits with a keyword, num_logits_to_keep in trl 0.14 and
logits_to_keep up to 1.14; transformers renamed it in 4.49, and some classes have neither. A forward without the keyword
may silently ignore it. It then computes logits of the whole sequence, with (P + C) / (C + 1) times the memory, and
releases that do not cut them afterwards take log-probabilities from the wrong positions. Or it raises TypeError.
Seen: trl 0.14.0 with GPT2 of transformers 4.48.3 (log-probabilities 0.35 off, no message), trl 0.19.1 with GPT2 of
4.52.4 (RuntimeError), trl 0.15.2 with Qwen2 of 4.48.3 (right, but the whole sequence is computed).
Remove when: trl below 1.15 is no longer supported; since 1.15 its loss requests no logits.
"""

from importlib.metadata import version
from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.seams import LOGITS_KEYWORDS as PASSED
from grpo_recipes.contract.seams import is_in
from grpo_recipes.worker._shared.library import (
    LOGITS_KEYWORDS,
    base_model,
    has_fused_loss,
    logits_keyword,
    set_forward,
)

NEW, OLD = LOGITS_KEYWORDS
RELEASE = version("trl")


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Replaces the forward of the policy and the reference model, unless they know this TRL's keyword."""
    passed = _passed_by(trainer)
    if passed is None:
        return ""
    models = [base_model(trainer, model) for model in (trainer.model, getattr(trainer, "ref_model", None)) if model]
    keyword = logits_keyword(models[0])
    if keyword == passed:
        return ""
    for model in models:
        take_both_keywords(model)
    if hasattr(trainer, "model_kwarg_keys"):
        trainer.model_kwarg_keys = {*trainer.model_kwarg_keys, NEW}
    name = type(models[0]).__name__
    return f"{name} gets {keyword} for {passed}" if keyword else f"{name} keeps the last hidden states for {passed}"


def _passed_by(trainer: Any) -> str | None:
    """Returns the keyword that this trainer passes, or would pass if the forward had it; None for a fused head."""
    # Liger's loss passes the same keywords to the layers below the head.
    if has_fused_loss(trainer):
        return None
    words = (word for word, since, until in PASSED if is_in(RELEASE, since, until))
    return next(words, None)


def take_both_keywords(model: Any) -> None:
    """Makes the model's forward accept either keyword; without one it is unchanged, also for generate()."""
    forward, keyword = model.forward, logits_keyword(model)

    def asked(self: Any, *given: Any, **named: Any) -> Any:
        counts = [named.pop(word) for word in (OLD, NEW) if word in named]
        if not counts:
            return forward(*given, **named)
        if keyword is None:
            return _with_last(self, forward, counts[-1], given, named)
        return forward(*given, **named, **{keyword: counts[-1]})

    set_forward(model, asked)


def _with_last(model: Any, forward: Any, count: int, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Returns forward's result with logits (B, count, V): of the last hidden states, else cut from all logits."""
    ids = given[0] if given else named["input_ids"]
    head = _head(model)
    hook = None if head is None else head.register_forward_pre_hook(lambda _, states: _last(states, ids.shape, count))
    try:
        output = forward(*given, **named)
    finally:
        if hook is not None:
            hook.remove()
    if output.logits.shape[1] > count:
        output.logits = output.logits[:, -count:]
    return output


def _head(model: Any) -> Any:
    try:
        return model.get_output_embeddings()
    except (AttributeError, NotImplementedError):
        return None


def _last(states: tuple[Any, ...], shape: tuple[int, ...], count: int) -> tuple[Any, ...]:
    """Returns hidden states (B, L, H) cut to (B, count, H), for ids of the shape (B, L); others unchanged."""
    if not states or states[0].ndim != 3 or tuple(states[0].shape[:2]) != tuple(shape):
        return states
    return (states[0][:, -count:], *states[1:])
