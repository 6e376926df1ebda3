"""Every field of `quantization` has the right type, and takes effect for the chosen width.

BitsAndBytesConfig raises TypeError for a threshold that is not a float (6 instead of 6.0), for modules to skip that are
not a list, and for booleans written as words. Fields that begin with bnb_4bit_ apply only to 4 bits,
`llm_int8_threshold` and `llm_int8_has_fp16_weight` only to 8 bits; the two others with llm_int8_ in their names apply
to both. If only fields of the other width are written, that width may be what was meant.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "QNT005"
BOOLEANS = ("llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight")
OF_FOUR, OF_EIGHT = ("bnb_4bit_",), ("llm_int8_threshold", "llm_int8_has_fp16_weight")
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
        own, foreign, other = (OF_EIGHT, OF_FOUR, 4) if eight else (OF_FOUR, OF_EIGHT, 8)
        written = [name for name in fields if context.is_given(f"BitsAndBytesConfig.{name}")]
        is_clear = any(name.startswith(own) for name in written)  # fields of the chosen width show that it was meant
        for name in [name for name in written if name.startswith(foreign)]:
            message, because = f"{name} has no effect", f"bitsandbytes reads it only for {other} bits"
            key, ways = f"BitsAndBytesConfig.{name}", f"load_in_{other}bit: true in place of load_in_{12 - other}bit"
            if is_clear:
                yield context.wrong(message, key, because, severity="warning")
            else:
                yield context.finding(message, key, because, fix=f"{ways}, or remove {name}", severity="warning")


def _finding(context: Context, name: str, problem: str, because: str, fix: object) -> Finding:
    return context.wrong(f"{name} {problem}", f"BitsAndBytesConfig.{name}", because, fix)
