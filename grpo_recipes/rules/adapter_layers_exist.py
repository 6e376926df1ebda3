"""The layers that get an adapter exist in the model.

`layers_to_transform` counts from 0; -1 does not mean the last layer. If at least one number is right, PEFT silently
skips numbers for which the model has no layer, and trains fewer layers than the recipe says. If `layers_pattern`, the
name of the list of layers ("layers", "h"), is wrong, PEFT raises ValueError after loading the model.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.module_names import layer_count
from grpo_recipes.rules._shared.adapter_modules import model_with_adapter, words
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import model_config, not_at_hand

ID = "LRA005"
LAYERS, PATTERN = "LoraConfig.layers_to_transform", "LoraConfig.layers_pattern"


def check(context: Context) -> Iterator[Finding]:
    value = context.value(LAYERS)
    listed: list[object] = value if isinstance(value, list) else [value]
    numbers = [number for number in listed if isinstance(number, int)]
    config = model_config(context) if context.has_section("lora") and value is not None else None
    count = None if config is None else layer_count(config)
    wrong = [number for number in numbers if number < 0 or (count is not None and number >= count)]
    if wrong:
        yield _layers(context, numbers, wrong, count)
    elif config is None and numbers and context.has_section("lora"):
        yield not_at_hand(context, "whether the model has these layers", LAYERS)
    model = model_with_adapter(context)
    pattern = words(context.value(PATTERN))
    if model is not None and pattern and not any(model[1].layers.endswith(name) for name in pattern):
        name = model[1].layers.rpartition(".")[2]
        because = [f"they are in {model[1].layers}; PEFT finds no layer and raises ValueError, after loading the model"]
        message = f"the model's layers are not called {' or '.join(pattern)}"
        yield context.wrong(message, PATTERN, because, name)


def _layers(context: Context, numbers: list[int], wrong: list[int], count: int | None) -> Finding:
    valid = [number for number in numbers if number not in wrong]
    if count is not None:
        valid = sorted({*valid, *(number + count for number in wrong if -count <= number < 0)})
    says = "layer numbers count from 0" if count is None else f"its layers are 0 to {count - 1}"
    message = f"the model has no layer {', '.join(map(str, wrong))}"
    because = [says, "PEFT skips such a layer, silently if any other number is right"]
    return context.wrong(message, LAYERS, because, valid or None)
