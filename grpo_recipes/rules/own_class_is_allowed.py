"""A model whose class lies beside its weights is given leave to run it.

A local config.json with `auto_map` names code of its own. transformers takes its own class where it has one for the
`model_type`, whatever auto_map says; else it raises ValueError without `trust_remote_code: true`, after the plan and
the queue. An error where the installed transformers trains and has no such class; a warning for a release that is not
here, and whose types beyond the well-known ones are not known. Whether the code may run is asked before, as for all
code.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.facts.released.model_classes import has_installed_class, is_known_type
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import MODEL, has_own_code, model_config

ID = "MDL005"
TRUST = "GRPOConfig.trust_remote_code"


def check(context: Context) -> Iterator[Finding]:
    config = model_config(context)
    if config is None or not has_own_code(config) or context.value(TRUST) is True or is_known_type(config):
        return
    kind, is_here = str(config.get("model_type")), context.facts.origins.get("transformers") == "installed"
    is_in_transformers = has_installed_class(kind) if is_here else None
    if is_in_transformers:
        return
    if is_in_transformers is None:
        why = f"transformers raises ValueError unless it has a class for model_type {kind} itself"
    else:
        why = f"transformers {context.stack.version('transformers')} has no class for model_type {kind}: ValueError"
    yield context.finding(
        ID,
        f"{context.text(MODEL)} has a class of its own, and its code may not run",
        MODEL,
        because=[
            why,
            "config.json has auto_map, and trust_remote_code is not true",
        ],
        severity="warning" if is_in_transformers is None else "error",
        fix="model: {trust_remote_code: true}",
        patch=[Patch(("model", "trust_remote_code"), True)],
    )
