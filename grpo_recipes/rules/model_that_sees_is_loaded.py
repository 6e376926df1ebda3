"""A model with a part for pictures is one that TRL can load.

Before 0.20, TRL loads every model as a causal language model and has no use for a processor: a class such as
Qwen2VLForConditionalGeneration raises ValueError, after the plan and the queue. From 0.20 on it loads the class that
config.json names, and trains it on text as any other; rows with pictures are DAT005.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import MODEL, model_config, sees, text_model

ID = "MDL004"
APPLIES_TO = {"trl": "<0.20.0"}


def check(context: Context) -> Iterator[Finding]:
    config = model_config(context)
    if config is None or not sees(config):
        return
    of_text = text_model(config)
    yield context.finding(
        ID,
        f"{context.text(MODEL)} has a part for pictures, which trl {context.stack.version('trl')} cannot load",
        MODEL,
        because=["it loads every model as a causal language model, and none with a processor: ValueError"],
        fix="trl>=0.20.0" + (f", or a model of text, such as {of_text}" if of_text else ", or a model of text"),
    )
