"""The modules of the model that a recipe adapts, for rules; no rule itself."""

from collections.abc import Mapping

from grpo_recipes.facts.module_names import ModuleNames, module_names, named
from grpo_recipes.rules.context import Context
from grpo_recipes.rules.loaded_model import has_own_code, model_config

TARGETS = "LoraConfig.target_modules"


def adapted_model(context: Context) -> tuple[Mapping[str, object], ModuleNames] | None:
    """The config.json and the module names of a model with an adapter; None when either is not known."""
    config = model_config(context) if context.has_section("lora") else None
    if config is None or has_own_code(config):
        return None
    names = module_names(config, context.stack.version("transformers"))
    return None if names is None else (config, names)


def words(value: object) -> list[str]:
    """The texts of a list, or one text as a list; nothing of anything else."""
    if isinstance(value, str):
        return [value]
    return [word for word in value if isinstance(word, str)] if isinstance(value, list | dict) else []


def is_all_linear(value: object) -> bool:
    """Whether `target_modules` is PEFT's word for all linear layers."""
    return isinstance(value, str) and value.lower() == "all-linear"


def selected(context: Context, names: ModuleNames) -> list[str] | None:
    """The modules that `target_modules` selects of all layers; None when that is not certain."""
    targets = context.value(TARGETS)
    if names.also:
        return None
    if is_all_linear(targets):
        return [name for name in names.linear if name.startswith(f"{names.layers}.")]
    if isinstance(targets, list):
        return [name for target in words(targets) for name in named(target, names.adapted)]
    return None


def is_found(target: str, names: ModuleNames, among: tuple[str, ...]) -> bool:
    """Whether an entry finds one of these names, or may find one that is not listed."""
    return bool(named(target, among)) or any(target == word or target.endswith(f".{word}") for word in names.also)


def shown_pattern(pattern: str) -> str:
    """A pattern as a message shows it: in quotes, and its beginning where it is long."""
    return repr(pattern if len(pattern) <= 60 else f"{pattern[:57]}...")
