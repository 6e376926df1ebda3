"""Every field of `quantization` has the right type, and takes effect for the chosen width.

BitsAndBytesConfig raises TypeError for a threshold that is not a float (6 instead of 6.0), for modules to skip that are
not a list, and for booleans written as words. Fields that begin with bnb_4bit_ apply only to 4 bits,
`llm_int8_threshold` and `llm_int8_has_fp16_weight` only to 8 bits; the two others with llm_int8_ in their names apply
to both.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "QNT005"
BOOLEANS = ("llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight")
OF_EIGHT = ("llm_int8_threshold", "llm_int8_has_fp16_weight")
RAISES = "BitsAndBytesConfig raises TypeError"


def check(context: Context) -> Iterator[Finding]:
    if not context.has_section("quantization"):
        return
    fields = context.settings.under("BitsAndBytesConfig")
    threshold, skipped = fields.get("llm_int8_threshold"), fields.get("llm_int8_skip_modules")
    if "llm_int8_threshold" in fields and not isinstance(threshold, float):
        is_number = isinstance(threshold, int) and not isinstance(threshold, bool)
        fix = float(threshold) if is_number else None  # type: ignore[arg-type]
        yield _finding(context, "llm_int8_threshold", f"is {threshold}, but must be a float", RAISES, fix)
    if skipped is not None and not (isinstance(skipped, list) and all(isinstance(word, str) for word in skipped)):
        fix_list = [skipped] if isinstance(skipped, str) else None
        yield _finding(context, "llm_int8_skip_modules", f"is {skipped}, but must be a list of names", RAISES, fix_list)
    for name in BOOLEANS:
        if name in fields and not isinstance(fields[name], bool):
            yield _finding(context, name, f"is {fields[name]}, but must be true or false", RAISES, None)
    four, eight = fields.get("load_in_4bit") is True, fields.get("load_in_8bit") is True
    if four != eight:
        for name in fields:
            of_other = name.startswith("bnb_4bit_") if eight else name in OF_EIGHT
            if of_other and context.is_given(f"BitsAndBytesConfig.{name}"):
                because = f"bitsandbytes reads it only for {'4' if eight else '8'} bits"
                yield _finding(context, name, "has no effect", because, None, is_error=False)


def _finding(context: Context, name: str, problem: str, because: str, fix: object, is_error: bool = True) -> Finding:
    text = f"{name} {problem}"
    return context.wrong(text, f"BitsAndBytesConfig.{name}", because, fix, severity="error" if is_error else "warning")
