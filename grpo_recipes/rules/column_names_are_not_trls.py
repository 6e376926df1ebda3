"""No column has a name that TRL uses itself.

TRL passes every column to the reward functions by name, together with its own arguments: a column `prompts` or
`completions` raises TypeError at the first reward. Columns with some other names never arrive: TRL withholds `prompt`
and `completion`, and for completion_ids, trainer_state, log_extra and log_metric a reward gets TRL's own value, never
the column. With a column `image` or `images`, TRL treats the rows as images, which a text model cannot read (KeyError:
pixel_values).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.prompt_shape import PICTURES
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import model_config
from grpo_recipes.rules._shared.training_rows import image_columns, is_conversational, own_columns

ID = "DAT003"
TAKEN = ("prompts", "completions")
NOT_PASSED = ("prompt", "completion", "completion_ids", "trainer_state", "log_extra", "log_metric")


def check(context: Context) -> Iterator[Finding]:
    own, added = own_columns(context) or frozenset(), context.mapping("dataset.columns")
    for name in TAKEN:
        if name in added or name in own:
            yield _finding(
                context,
                name,
                "would be passed twice",
                "TRL passes its own value to the rewards, which raises TypeError",
            )
    for name in NOT_PASSED:
        if name == "prompt" and name in added:
            yield _prompt(context, str(added[name]))
        elif name in added:
            yield _finding(context, name, "never reaches a reward", "TRL uses that name for its own argument")
    for name in PICTURES:
        is_other = name in own and name not in image_columns(context)
        if (name in added or is_other) and reads_text_alone(context):
            why = "TRL treats the column as images, and this is a text model"
            yield _finding(context, name, "makes TRL treat the rows as images", why)


def reads_text_alone(context: Context) -> bool:
    """Whether rows certainly hold no pictures: plain prompts, or a text model."""
    if is_conversational(context) is False:
        return True
    config = model_config(context)
    architectures = config.get("architectures") if config is not None else None
    names = [str(name) for name in architectures] if isinstance(architectures, list) else []
    is_of_text = bool(names) and all(name.endswith("ForCausalLM") for name in names)
    return config is not None and is_of_text and not any("vision" in key or "image" in key for key in config)


def _finding(context: Context, name: str, happens: str, because: str) -> Finding:
    added = context.mapping("dataset.columns")
    free = next(other for other in (f"data_{name}", f"data_{name}_2") if other not in added)
    patch = [Patch(("dataset", "columns", name), remove=True), Patch(("dataset", "columns", free), added.get(name))]
    return context.finding(
        f"a column {name} {happens}",
        "dataset.columns" if name in added else "dataset.path",
        because,
        fix=f"call it {free}" if name in added else f"rename the column {name} in the data, for example to {free}",
        patch=patch if name in added else [],
    )


def _prompt(context: Context, template: str) -> Finding:
    path = ("dataset", "columns", "prompt")
    has_one = context.value("dataset.prompt") is not None
    patch = [Patch(path, remove=True)] + ([] if has_one else [Patch(("dataset", "prompt"), template)])
    because = "the prompt of a row comes from dataset.prompt or from the row's column prompt"
    fix = "remove it, since dataset.prompt is set" if has_one else "write it as dataset.prompt"
    return context.finding("dataset.columns.prompt is not used", "dataset.columns", because, fix=fix, patch=patch)
