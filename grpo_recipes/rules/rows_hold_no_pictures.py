"""Rows are text: a picture in them would be seen by the trainer alone.

TRL trains on the pictures of a column `image` or `images`, and of parts of messages. Evaluation, preflight and the
reports of a run do not see them: a held-out score would be of another task than the training, and nothing would say
so. So rows with pictures are refused, whatever the model is. A model that can see trains on text as any other: its part
that sees stays as it is, which TRL is made for from 0.20 on (MDL003). Its processor is loaded all the same, and needs
Pillow, for some families torchvision (STK010).
"""

from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.prompt_shape import PICTURES, has_picture
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import MODEL, model_config, sees, text_model
from grpo_recipes.rules._shared.training_rows import first_row_of, own_columns
from grpo_recipes.rules.columns_are_no_words_of_trl import reads_text_alone

ID = "DAT005"


def check(context: Context) -> Iterator[Finding]:
    own, added = own_columns(context) or frozenset(), context.mapping("dataset.columns")
    for name in PICTURES:
        if (name in own or name in added) and not reads_text_alone(context):
            yield _finding(context, f"a column {name}", "dataset.columns" if name in added else "dataset.path")
    prompt = (first_row_of(context) or {}).get("prompt")
    messages = prompt if isinstance(prompt, list) and context.value("dataset.prompt") is None else []
    if any(isinstance(message, Mapping) and has_picture(message) for message in messages):
        yield _finding(context, "messages", "dataset.path")


def _finding(context: Context, place: str, key: str) -> Finding:
    config = model_config(context)
    of_text = text_model(config) if config is not None and sees(config) else None
    instead = f", with a model of text such as {of_text} for {context.text(MODEL)}" if of_text else ""
    return context.finding(
        ID,
        f"the rows have pictures in {place}",
        key,
        because=["only the trainer would see them: evaluation would ask without them and say nothing"],
        fix=f"leave them out of the data and train on text{instead}",
    )
