"""`exclude_modules` leaves at least one module to adapt.

PEFT matches `exclude_modules` like `target_modules`: a list holds whole names or their last parts, a text is one
regular expression for the whole name. If it covers every target, PEFT raises ValueError ("No modules were targeted for
adaptation") after loading the model.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.patterns import ask
from grpo_recipes.facts.module_names import named
from grpo_recipes.rules._shared.adapter_modules import TARGETS, adapted_model, selected, words
from grpo_recipes.rules._shared.context import Context

ID = "LRA014"
EXCLUDED = "LoraConfig.exclude_modules"


def check(context: Context) -> Iterator[Finding]:
    excluded = context.value(EXCLUDED) if context.has_section("lora") else None
    if not excluded or context.value("LoraConfig.target_parameters") or not _covers(context, excluded):
        return
    shown = f"[{', '.join(words(excluded))}]" if isinstance(excluded, list) else str(excluded)
    because = [f"target_modules are all among {shown}", "PEFT raises ValueError after loading the model"]
    yield context.wrong("exclude_modules leaves no module to adapt", EXCLUDED, because)


def _covers(context: Context, excluded: object) -> bool:
    """Whether `exclude_modules` certainly covers every adapted module."""
    targets, model = context.value(TARGETS), adapted_model(context)
    chosen = None if model is None else selected(context, model[1])
    if chosen is None:
        both = isinstance(targets, list) and isinstance(excluded, list)
        return both and bool(targets) and set(words(targets)) <= set(words(excluded))
    if isinstance(excluded, list):
        return bool(chosen) and all(any(named(entry, [name]) for entry in words(excluded)) for name in chosen)
    finds = ask((str(excluded),), tuple(chosen))[0].finds
    return bool(chosen) and bool(finds) and all(finds)
