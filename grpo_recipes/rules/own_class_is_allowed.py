"""A model whose class lies beside its weights is given leave to run it.

A local config.json with `auto_map` names code of its own. transformers takes its own class where it has one for the
`model_type`, whatever auto_map says; else it raises ValueError without `trust_remote_code: true`, after the plan and
the queue. Which types a release knows is not told here beyond the well-known ones, so it is a warning. Whether the code
may run is asked before, as for all code.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.facts.released.model_classes import is_known_type
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import MODEL, has_own_code, model_config

ID = "MDL005"
TRUST = "GRPOConfig.trust_remote_code"


def check(context: Context) -> Iterator[Finding]:
    config = model_config(context)
    if config is None or not has_own_code(config) or context.value(TRUST) is True or is_known_type(config):
        return
    yield context.finding(
        ID,
        f"{context.text(MODEL)} has a class of its own, and its code may not run",
        MODEL,
        because=[
            f"transformers raises ValueError unless it has a class for model_type {config.get('model_type')} itself",
            "config.json has auto_map, and trust_remote_code is not true",
        ],
        severity="warning",
        fix="model: {trust_remote_code: true}",
        patch=[Patch(("model", "trust_remote_code"), True)],
    )
