"""A model is loaded in 4 bits or in 8 bits.

BitsAndBytesConfig raises ValueError if both are true. With neither, the section does nothing, and the expected memory
saving does not happen.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "QNT002"
FOUR, EIGHT = "BitsAndBytesConfig.load_in_4bit", "BitsAndBytesConfig.load_in_8bit"


def check(context: Context) -> Iterator[Finding]:
    if not context.has_section("quantization"):
        return
    four, eight = context.value(FOUR), context.value(EIGHT)
    if four and eight:
        because = "BitsAndBytesConfig raises ValueError"
        yield context.wrong("load_in_4bit and load_in_8bit cannot both be true", EIGHT, because, False)
    elif not four and not eight:
        message = "`quantization` sets neither load_in_4bit nor load_in_8bit"
        because = "without one of them nothing is quantized"
        section = context.source.values.get("quantization")
        written = [*section.values()] if isinstance(section, dict) else []
        width = 8 if 8 in written else 4
        if (context.is_given(FOUR) or context.is_given(EIGHT)) and width not in written:
            yield context.wrong(message, "quantization", because)
        else:
            yield context.wrong(message, "quantization", because, True, at=("quantization", f"load_in_{width}bit"))
