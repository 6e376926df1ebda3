"""The experts of a mixture are adapted as fused tensors.

transformers 5 keeps all experts of a block in two tensors, gate_up_proj and down_proj. PEFT still accepts the names of
the single layers, also from all-linear, and puts one adapter on each tensor. gate_proj without up_proj raises
ValueError, because both are one tensor (w1 and w3 in Mixtral). So do dropout and DoRA, which such an adapter does not
support. All of these errors appear only after the model is loaded.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.adapter_modules import TARGETS, is_all_linear, model_with_adapter, words
from grpo_recipes.rules._shared.context import Context

ID = "LRA011"
APPLIES_TO = {"transformers": ">=5", "peft": ">=0.21.2"}
FUSED = (("gate_proj", "up_proj"), ("w1", "w3"))
RAISES = "PEFT raises ValueError when it builds the adapter, after loading the model"


def check(context: Context) -> Iterator[Finding]:
    model = model_with_adapter(context)
    targets = context.value(TARGETS)
    if model is None or not model[1].parameters or not (isinstance(targets, list) or is_all_linear(targets)):
        return
    names = model[1].also if is_all_linear(targets) else [word.rpartition(".")[2] for word in words(targets)]
    fused = [name for name in names if name in model[1].also]
    if isinstance(targets, list):
        for pair in FUSED:
            missing = [name for name in pair if name not in names]
            if len(missing) == 1 and missing[0] in model[1].also:
                message = f"target_modules names only one of {pair[0]} and {pair[1]}, one tensor in the experts"
                yield context.wrong(message, TARGETS, RAISES, [*targets, missing[0]])
    if not fused:
        return
    dropout = context.value("LoraConfig.lora_dropout")
    if isinstance(dropout, float | int) and dropout > 0:
        yield context.wrong("an adapter of fused experts cannot have dropout", "LoraConfig.lora_dropout", RAISES, 0.0)
    if context.value("LoraConfig.use_dora") is True:
        yield context.wrong("an adapter of fused experts cannot use DoRA", "LoraConfig.use_dora", RAISES, False)
