"""TRL can load a vision-language model.

Before 0.20 TRL loads every model as a causal language model and cannot use a processor: a class such as
Qwen2VLForConditionalGeneration raises ValueError, after planning and queueing. Since 0.20, TRL loads the class that
config.json names, and trains it on text like any other; for rows with images see DAT005.
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
    message = f"trl {context.stack.version('trl')} cannot load the vision-language model {context.text(MODEL)}"
    because = "it loads every model as a causal language model without a processor, and raises ValueError"
    fix = "trl>=0.20.0" + (f", or a text model, such as {of_text}" if of_text else ", or a text model")
    yield context.finding(message, MODEL, because, fix=fix)
