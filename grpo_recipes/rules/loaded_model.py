"""The configuration of the model that a recipe names, for rules; no rule itself."""

from collections.abc import Mapping

from grpo_recipes.facts.local_files import local_path
from grpo_recipes.facts.model_config import read_model_config
from grpo_recipes.rules.context import Context

MODEL = "model.model_name_or_path"


def model_config(context: Context) -> Mapping[str, object] | None:
    """Its config.json, of the folder, the local hub cache or the shipped table; None when it is not known."""
    value = context.text(MODEL)
    path = local_path(value, context.source.directory(("model", "model_name_or_path")))
    revision = context.value("model_init_kwargs.revision")
    return read_model_config(path or value, None if revision is None else str(revision))


def has_own_code(config: Mapping[str, object]) -> bool:
    """Whether the class of the model lies beside its weights."""
    return "auto_map" in config
