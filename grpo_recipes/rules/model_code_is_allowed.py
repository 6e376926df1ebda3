"""A model with its own class has permission to run that code.

A local config.json with `auto_map` names the model's own code. If transformers has a class for the `model_type`, it
uses that, whatever auto_map says; otherwise it raises ValueError without `trust_remote_code: true`, after the plan and
the queue. This is a warning for a release whose types grpo-run does not know. As for all code, a run asks for consent
first.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import MODEL, has_own_code, model_config

ID = "MDL005"
TRUST = "GRPOConfig.trust_remote_code"


def check(context: Context) -> Iterator[Finding]:
    config = model_config(context)
    if config is None or not has_own_code(config) or context.value(TRUST) is True:
        return
    kind = str(config.get("model_type"))
    is_named = "model_type" in config or not context.stack.declared  # older releases may know it by the folder's name
    is_in_transformers = context.facts.has_model_type(kind) if is_named else None
    if is_in_transformers:
        return
    if is_in_transformers is None:
        why = f"transformers raises ValueError unless it has a class for model_type {kind} itself"
    else:
        why = f"transformers {context.stack.version('transformers')} has no class for {kind} and raises ValueError"
    yield context.wrong(
        f"{context.text(MODEL)} has its own class, but its code may not run",
        MODEL,
        [why, "config.json has auto_map, and trust_remote_code is not true"],
        True,
        at=("model", "trust_remote_code"),
        severity="warning" if is_in_transformers is None else "error",
        fix="model: {trust_remote_code: true}",
    )
