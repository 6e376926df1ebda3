"""`exclude_modules` leaves at least one module to adapt, and by default excludes the vision part.

PEFT matches `exclude_modules` like `target_modules`: a list holds whole names or their last parts, a string is one
regular expression for the whole name. If it covers every target, PEFT raises ValueError ("No modules were targeted for
adaptation") after loading the model.

With `dataset.images` and the default of `target_modules`, the rule excludes the vision part of the model, which stays
unchanged, as in most published recipes. PEFT would adapt its linear layers too, because all-linear and names such as
q_proj match them. If a recipe sets `target_modules`, the rule keeps them, and reports a note if they reach the vision
part.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.patterns import ask
from grpo_recipes.facts.module_names import names_matching
from grpo_recipes.rules._shared.adapter_modules import TARGETS, is_all_linear, model_with_adapter, select_modules, words
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.loaded_model import TOWERS, model_config
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.training_rows import image_columns

ID = "LRA014"
EXCLUDED = "LoraConfig.exclude_modules"
OWNS = (EXCLUDED,)
# Names of linear layers of CLIP and SigLIP, which these models see with.
OF_TOWERS = {"q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"}
SEE_WITH_THEM = {"gemma3", "idefics2", "idefics3", "llava", "llava_next", "paligemma", "smolvlm"}


def decide(context: Context) -> Iterator[Setting]:
    written = context.is_given(EXCLUDED) or context.is_given(TARGETS)
    if context.has_section("lora") and image_columns(context) and not written:
        yield rule_setting(
            EXCLUDED, TOWERS, "the recipe does not set target_modules, so the vision part stays unchanged"
        )


def check(context: Context) -> Iterator[Finding]:
    yield from _reaches_the_vision_part(context)
    excluded = context.value(EXCLUDED) if context.has_section("lora") else None
    if not excluded or context.value("LoraConfig.target_parameters") or not _covers(context, excluded):
        return
    shown = f"[{', '.join(words(excluded))}]" if isinstance(excluded, list) else str(excluded)
    because = [f"{shown} covers all target_modules", "PEFT raises ValueError after loading the model"]
    yield context.wrong("exclude_modules leaves no module to adapt", EXCLUDED, because)


def _reaches_the_vision_part(context: Context) -> Iterator[Finding]:
    if not context.has_section("lora") or not image_columns(context) or context.value(EXCLUDED) is not None:
        return
    targets, config = context.value(TARGETS), model_config(context) or {}
    reached = sorted(OF_TOWERS & {*words(targets)}) if config.get("model_type") in SEE_WITH_THEM else []
    if is_all_linear(targets) or reached:
        message = f"target_modules {', '.join(reached) or targets} would also adapt the vision part"
        because = (
            "its linear layers have the same names" if reached else "all-linear means the linear layers of all parts"
        )
        fix = f"peft.exclude_modules: '{TOWERS}' leaves it unchanged"
        yield context.finding(message, TARGETS, because, fix=fix, severity="note")


def _covers(context: Context, excluded: object) -> bool:
    """Whether `exclude_modules` certainly covers every adapted module."""
    targets, model = context.value(TARGETS), model_with_adapter(context)
    chosen = None if model is None else select_modules(context, model[1])
    if chosen is None:
        both = isinstance(targets, list) and isinstance(excluded, list)
        return both and bool(targets) and set(words(targets)) <= set(words(excluded))
    if isinstance(excluded, list):
        return bool(chosen) and all(any(names_matching(entry, [name]) for entry in words(excluded)) for name in chosen)
    finds = ask((str(excluded),), tuple(chosen))[0].finds
    return bool(chosen) and bool(finds) and all(finds)
