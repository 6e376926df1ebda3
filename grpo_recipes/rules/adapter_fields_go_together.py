"""The fields under `lora` can be combined.

LoraConfig raises ValueError for some combinations. `layers_to_transform` needs a list of `target_modules`, not the word
all-linear, which is the format's default. `layers_pattern` needs `layers_to_transform`. `lora_bias` cannot be combined
with DoRA or with an `init_lora_weights` that is not true or false. PEFT rejects others only when it builds the adapter,
after loading the model: a layer supports only one of DoRA, aLoRA and the other variants, and a tensor in
`target_parameters` supports neither dropout nor a variant. It silently accepts the rest: in inference mode nothing is
trained, and settings of an initialisation that the recipe does not choose have no effect.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.adapter_modules import TARGETS, model_with_adapter
from grpo_recipes.rules._shared.context import Context

ID = "LRA006"
# A layer takes only one of these.
VARIANTS = (
    "use_dora",
    "alora_invocation_tokens",
    "arrow_config",
    "use_bdlora",
    "velora_config",
    "monteclora_config",
    "kasa_config",
)
# Settings that only one start reads.
OF_A_START = {"loftq_config": "loftq", "eva_config": "eva", "corda_config": "corda", "lora_ga_config": "lora_ga"}
# Fields that hold a configuration object.
PARTS = ("velora_config", "kasa_config", "eva_config", "corda_config", "lora_ga_config", "arrow_config", "use_bdlora")
IN_LORA_CONFIG = "LoraConfig raises ValueError for it"
WHEN_BUILT = "PEFT raises ValueError when it builds the adapter, after loading the model"
TWO_VARIANTS = f"both are variants of LoRA; {WHEN_BUILT}"


def _value(context: Context, name: str) -> object:
    return context.value(f"LoraConfig.{name}")


def check(context: Context) -> Iterator[Finding]:
    if context.has_section("lora"):
        yield from _layers(context)
        yield from _bias(context)
        yield from _variants(context)
        yield from _tensors(context)
        yield from _of_no_use(context)


def _finding(context: Context, name: str, message: str, because: str, fix: object = None) -> Finding:
    return context.wrong(message, f"LoraConfig.{name}", because, fix)


def _layers(context: Context) -> Iterator[Finding]:
    chosen = next((n for n in ("layers_to_transform", "layers_pattern") if _value(context, n) is not None), None)
    if chosen is not None and isinstance(context.value(TARGETS), str):
        model = model_with_adapter(context)
        endings = [] if model is None else [end for end in model[1].endings() if end != "lm_head"]
        both = chosen == "layers_to_transform" and _value(context, "layers_pattern") is not None
        message = f"{chosen} needs a list of target_modules, but the recipe has {context.value(TARGETS)}"
        if endings and chosen == "layers_to_transform":
            yield context.wrong(message, f"LoraConfig.{chosen}", IN_LORA_CONFIG, endings, at=("lora", "target_modules"))
            return
        finding = _finding(context, chosen, message, IN_LORA_CONFIG)
        further = (Patch(("lora", "layers_pattern"), remove=True),) if both else ()
        yield finding._replace(patch=finding.patch + further)
    elif chosen == "layers_pattern" and _value(context, chosen):
        yield _finding(context, chosen, "layers_pattern needs layers_to_transform, which is not set", IN_LORA_CONFIG)


def _bias(context: Context) -> Iterator[Finding]:
    if _value(context, "lora_bias") is not True:
        return
    start = _value(context, "init_lora_weights")
    if start is not None and not isinstance(start, bool):
        message = f"lora_bias cannot be combined with init_lora_weights {start}"
        yield _finding(context, "lora_bias", message, IN_LORA_CONFIG, False)
    elif _value(context, "use_dora") is True:
        yield _finding(context, "lora_bias", "lora_bias cannot be combined with DoRA", IN_LORA_CONFIG, False)


def _variants(context: Context) -> Iterator[Finding]:
    chosen = [name for name in VARIANTS if _value(context, name) not in (None, False, [])]
    if _value(context, "init_lora_weights") == "mica" and chosen:
        message = f"{chosen[0]} cannot be combined with init_lora_weights mica"
        yield _finding(context, chosen[0], message, TWO_VARIANTS)
    for name in chosen[1:]:
        yield _finding(context, name, f"{name} cannot be combined with {chosen[0]}", TWO_VARIANTS)


def _tensors(context: Context) -> Iterator[Finding]:
    if not _value(context, "target_parameters"):
        return
    dropout = _value(context, "lora_dropout")
    if isinstance(dropout, float | int) and dropout > 0:
        yield _finding(
            context, "lora_dropout", "target_parameters cannot be combined with lora_dropout", WHEN_BUILT, 0.0
        )
    for name in ("lora_bias", *VARIANTS):
        if _value(context, name) not in (None, False, []):
            yield _finding(context, name, f"target_parameters cannot be combined with {name}", WHEN_BUILT)


def _of_no_use(context: Context) -> Iterator[Finding]:
    if _value(context, "inference_mode") is True:
        message = "inference_mode leaves the adapter untrained"
        yield _finding(
            context,
            "inference_mode",
            message,
            "no tensor is trained; with gradient checkpointing the run continues silently",
            False,
        )
    for name, right in (("task_type", "CAUSAL_LM"), ("peft_type", "LORA")):
        if _value(context, name) not in (None, right):
            message = f"{name} is {_value(context, name)}, but must be {right}"
            yield _finding(context, name, message, "GRPO trains only causal language models with LoRA")
    if context.is_given("LoraConfig.runtime_config"):
        because = "PEFT needs an object, and raises AttributeError for a map after loading the model"
        yield _finding(context, "runtime_config", "runtime_config cannot be written in a recipe", because)
    if isinstance(_value(context, "arrow_config"), dict):
        because = "PEFT routes between them, and raises AttributeError without them, after loading the model"
        yield _finding(context, "arrow_config", "arrow_config needs adapters that are already trained", because)
    for name in PARTS:
        if _value(context, name) is not None and not isinstance(_value(context, name), dict):
            message = f"{name} is {_value(context, name)}, but must be a map"
            yield _finding(context, name, message, "LoraConfig raises TypeError for anything else")
    for name, start in OF_A_START.items():
        if isinstance(_value(context, name), dict) and _value(context, "init_lora_weights") != start:
            message = f"{name} has no effect"
            because = f"PEFT reads it only for init_lora_weights: {start}"
            yield context.wrong(message, f"LoraConfig.{name}", because, severity="warning")
