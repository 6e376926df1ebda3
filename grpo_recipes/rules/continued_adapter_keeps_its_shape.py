"""An adapter that is trained further keeps its shape.

`lora: {continue: true}` continues with the adapter of the run that `model.from_run` names, so rank, scale, modules and
biases are those of that adapter. A different rank or different modules need other tensors: PEFT refuses to load the old
ones, or silently leaves missing ones at their random start. A different lora_alpha starts from a different policy than
the run ended with. Only lora_dropout may differ. New tokens make the model larger than that of the adapter.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import flow
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.user_files.ancestor import StartingPoint, ancestor_of

ID = "LRA015"
CONTINUE, TOKENS = "lora.continue", "tokenizer.add_tokens"
FREE = ("lora_dropout", "continue")


def check(context: Context) -> Iterator[Finding]:
    if not context.has_section("lora") or context.value(CONTINUE) is not True:
        return
    parent = ancestor_of(context.source)
    if parent is None:
        because = "the key continues the adapter of another run"
        yield context.wrong("continue has no adapter to train: model.from_run names no run", CONTINUE, because)
    elif isinstance(parent, StartingPoint) and parent.adapter is None:
        because = f"{parent.weights} has no adapter_config.json"
        yield context.wrong(f"continue has no adapter to train: {parent.name} trained a whole model", CONTINUE, because)
    elif isinstance(parent, StartingPoint):
        written = context.source.values.get("lora")
        shape, fields = parent.shape(context.facts), context.facts.fields("LoraConfig") or {}
        for name, value in (written if isinstance(written, dict) else {}).items():
            default = fields[name].default if name in fields else None
            own = shape.get(name, default)
            if name in FREE or value is None or _same(value, own):
                continue
            message = f"{name} is {flow(value)}, but the adapter of {parent.name} has {flow(own)}"
            reason = "an adapter that is trained further keeps its shape"
            fix = f"remove {name}, or continue: false for a new adapter on the merged model"
            yield context.wrong(message, f"LoraConfig.{name}", reason, fix=fix)
        tokens = context.value(TOKENS)
        if isinstance(tokens, list) and tokens:
            message = f"add_tokens makes the model larger than that of the adapter of {parent.name}"
            why = "the tokens of the run are in its model already, and the adapter has no rows for more"
            yield context.wrong(
                message, TOKENS, why, fix="remove add_tokens, or continue: false for a new adapter on the merged model"
            )


def _same(value: object, own: object) -> bool:
    if isinstance(value, list) and isinstance(own, list):
        return sorted(map(str, value)) == sorted(map(str, own))
    return value == own
