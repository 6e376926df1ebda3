"""A model with a part for pictures is trained on text.

TRL trains it on text as any other model: the part that sees gets no gradient and stays as it is. Pictures are refused:
those that local rows have by DAT005, others by preflight and at the start of a run. Where the rows cannot be looked at
before, it is said that they were not: data for such a model mostly has pictures. Its processor needs Pillow, and for
some families torchvision, also where there is nothing to see (STK010).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import MODEL, model_config, sees, text_model
from grpo_recipes.rules._shared.training_rows import own_columns

ID = "MDL003"


def check(context: Context) -> Iterator[Finding]:
    config = model_config(context)
    if config is None or not sees(config) or own_columns(context) is not None:
        return
    of_text = text_model(config)
    yield context.finding(
        ID,
        f"{context.text(MODEL)} has a part for pictures, and is trained on text alone",
        MODEL,
        because=[
            "rows with pictures stop preflight and the run: evaluation and reports would not see them",
            f"the rows of {context.text('dataset.path')} are not known here",
        ],
        severity="warning",
        fix="grpo-run preflight, which looks at all rows"
        + (f"; or a model of text, such as {of_text}" if of_text else ""),
    )
