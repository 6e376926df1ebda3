"""A recipe that continues an adapter loads its model as the earlier run did.

The adapter was trained on a model in 4 or 8 bits, or in some data type, and also corrects that model's errors. On a
different model nothing fails, but the policy is slightly different, and the first completions differ from those at the
end of the run. A merged model is dequantized first, so nothing is lost (see the plan's `ancestor`).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import flow
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import is_quantized
from grpo_recipes.user_files.ancestor import StartingPoint, ancestor_of, continues

ID = "MDL008"
DTYPE = "model_init_kwargs.dtype"
WIDTHS = ("load_in_4bit", "load_in_8bit")


def check(context: Context) -> Iterator[Finding]:
    ancestor = ancestor_of(context.source)
    if not isinstance(ancestor, StartingPoint) or ancestor.run is None or not continues(context.source):
        return
    was, now = _width(ancestor.quantization or {}), _width(context.settings.under("BitsAndBytesConfig"))
    if was != (now if is_quantized(context) else "full precision"):
        section = None
        if ancestor.quantization is not None:
            section = {key: value for key, value in ancestor.quantization.items() if value not in (None, False)}
        yield context.wrong(
            f"{ancestor.name} trained its adapter on a model in {was}, but this recipe loads it differently",
            "quantization" if context.has_section("quantization") else "lora.continue",
            "an adapter corrects the errors of the model that it was trained on",
            section,
            at=("quantization",),
            severity="warning",
            fix="remove quantization" if section is None else f"quantization: {flow(section)}",
        )
    dtype = context.value(DTYPE)
    if ancestor.dtype is not None and dtype != ancestor.dtype:
        message = f"the weights are loaded in {dtype}, but {ancestor.name} trained its adapter on {ancestor.dtype}"
        because = "the first completions differ slightly from those at the end of that run"
        yield context.wrong(message, DTYPE, because, ancestor.dtype, severity="warning")


def _width(fields: object) -> str:
    given = fields if isinstance(fields, dict) else {}
    return next((width.removeprefix("load_in_") for width in WIDTHS if given.get(width) is True), "full precision")
