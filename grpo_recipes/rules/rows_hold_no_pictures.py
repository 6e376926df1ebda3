"""Rows contain no pictures, since only the trainer would see them.

TRL trains on the pictures of a column `image` or `images`, and of parts of messages. Evaluation, preflight and the
reports of a run do not see them, so a held-out score would silently belong to a different task than the training. So
rows with pictures are refused for every model. A vision-language model trains on text like any other: its vision part
does not change, which TRL supports from 0.20 on (MDL003). Its processor is still loaded, and needs Pillow, for
some families torchvision (STK010).
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
    instead = f", with a text model such as {of_text} for {context.text(MODEL)}" if of_text else ""
    said = f"the rows have pictures in {place}"
    because = "only the trainer would see them; evaluation would silently ask without them"
    return context.finding(said, key, because, fix=f"remove them from the data and train on text{instead}")
