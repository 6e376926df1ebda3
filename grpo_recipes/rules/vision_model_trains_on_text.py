"""A vision-language model without `dataset.images` is trained on text.

TRL trains it on text like any other model: its vision part gets no gradient and does not change. Images that the recipe
does not name are refused: DAT005 checks local rows, preflight and the start of a run check the others. If the rule
cannot read the rows, it warns that they were not checked, since data for such a model mostly has images. Its processor
needs Pillow, and for some families torchvision, even for text (STK010).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import MODEL, model_config, sees, text_model
from grpo_recipes.rules._shared.training_rows import image_columns, own_columns

ID = "MDL003"


def check(context: Context) -> Iterator[Finding]:
    config = model_config(context)
    if config is None or not sees(config) or own_columns(context) is not None or image_columns(context):
        return
    of_text = text_model(config)
    yield context.finding(
        f"{context.text(MODEL)} is a vision-language model, but is trained on text only",
        MODEL,
        [
            "dataset.images is not set; if the rows have images, preflight and the run stop",
            f"grpo-run has not read the rows of {context.text('dataset.path')}",
        ],
        severity="warning",
        fix="dataset.images: the column with the images; or grpo-run preflight, which checks all rows"
        + (f"; or a text model, such as {of_text}" if of_text else ""),
    )
