"""The modules of the model that a recipe adapts, for rules."""

from collections.abc import Mapping
from typing import NamedTuple

from grpo_recipes.contract.findings.finding import Patch
from grpo_recipes.facts.module_names import ModuleNames, module_names, names_matching
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import has_own_code, model_config

TARGETS = "LoraConfig.target_modules"
SAVED = "LoraConfig.modules_to_save"


def model_with_adapter(context: Context) -> tuple[Mapping[str, object], ModuleNames] | None:
    """The config.json and the module names of a model with an adapter; None if either is unknown."""
    config = model_config(context) if context.has_section("lora") else None
    if config is None or has_own_code(config):
        return None
    names = module_names(config, context.stack.version("transformers"))
    return None if names is None else (config, names)


def words(value: object) -> list[str]:
    """The texts of a list, or one text as a list; empty for anything else."""
    if isinstance(value, str):
        return [value]
    return [word for word in value if isinstance(word, str)] if isinstance(value, list | dict) else []


def is_all_linear(value: object) -> bool:
    """Whether `target_modules` is PEFT's word for all linear layers."""
    return isinstance(value, str) and value.lower() == "all-linear"


def select_modules(context: Context, names: ModuleNames) -> list[str] | None:
    """The modules that `target_modules` selects of all layers; None if uncertain."""
    targets = context.value(TARGETS)
    if names.also:
        return None
    if is_all_linear(targets):
        return [name for name in names.linear if name.startswith(f"{names.layers}.")]
    if isinstance(targets, list):
        return [name for target in words(targets) for name in names_matching(target, names.adapted)]
    return None


def is_found(target: str, names: ModuleNames, among: tuple[str, ...]) -> bool:
    """Whether an entry matches one of these names, or may match one that is not listed."""
    return bool(names_matching(target, among)) or any(
        target == word or target.endswith(f".{word}") for word in names.also
    )


class Vocabulary(NamedTuple):
    """The two ends of a model's vocabulary. is_tied: whether they are one matrix, None if unknown."""

    embedding: str
    output: str
    is_tied: bool | None


def vocabulary(context: Context) -> Vocabulary:
    """The names of the embedding and the output layer; the common ones if the model is unknown."""
    model = model_with_adapter(context)
    known = ["embed_tokens"] if model is None else [name.rpartition(".")[2] for name in model[1].embedding]
    embedding = next(name for name in known if "pos" not in name and name != "wpe")
    tied = model[0].get("tie_word_embeddings") if model is not None else None
    return Vocabulary(embedding, "lm_head", tied if isinstance(tied, bool) else None)


def keeps_ties(context: Context) -> bool:
    """Whether this PEFT trains tied weights as one on `ensure_weight_tying`. Measured with 0.19.1 and 0.21.2."""
    version = context.stack.version("peft")
    return version is not None and is_within(version, ">=0.19")


def both_ends(context: Context) -> tuple[str, list[Patch]]:
    """A fix, as text and as data, that trains the embedding and the output layer."""
    ends, saved = vocabulary(context), words(context.value(SAVED))
    names = [*saved, *(name for name in (ends.embedding, ends.output) if name not in saved)]
    text, patch = f"modules_to_save: [{', '.join(names)}]", [Patch(("lora", "modules_to_save"), names)]
    if ends.is_tied is False or not keeps_ties(context):
        return text, patch
    return f"{text}, ensure_weight_tying: true", [*patch, Patch(("lora", "ensure_weight_tying"), True)]


def pattern_text(pattern: str) -> str:
    """A pattern as a message shows it: in quotes, and shortened if it is long."""
    return repr(pattern if len(pattern) <= 60 else f"{pattern[:57]}...")
