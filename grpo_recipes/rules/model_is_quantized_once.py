"""A model is quantized once: by its checkpoint, or by the recipe.

A checkpoint that was saved in a quantized form says so in its config.json. transformers raises ValueError for
`quantization` on a checkpoint of a different method (GPTQ, AWQ, fp8). For a bitsandbytes checkpoint it uses the
checkpoint's own values, ignores those of the recipe and only warns. Such a model can only be trained with an adapter,
and some methods cannot be trained at all. Most methods need a package to be loaded. transformers skips a method that
it does not know, and loads the packed numbers as if they were weights.
"""

from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import MODEL, model_config

ID = "QNT004"
OWN = "bitsandbytes"
# Quantizers whose is_trainable is false, and that do not fall back to full weights if their kernels are missing.
NEVER_TRAINED = ("auto-round", "fbgemm_fp8", "higgs", "quark", "spqr", "vptq")
# Methods whose weights cannot be trained without an adapter.
BY_ADAPTER = (OWN, "gptq", "awq", "hqq", "eetq", "quanto", "sinq")
# Packages of which a method needs one, over the releases of transformers.
NEEDS = {
    "gptq": ("gptqmodel", "auto-gptq"),
    "awq": ("gptqmodel", "autoawq"),
    "aqlm": ("aqlm",),
    "hqq": ("hqq",),
    "eetq": ("kernels", "eetq"),
    "quanto": ("optimum-quanto",),
    "compressed-tensors": ("compressed-tensors",),
    "torchao": ("torchao",),
    "sinq": ("sinq",),
}
# Other methods of transformers, quantizers/auto.py.
OTHERS = ("bitnet", "fouroversix", "fp8", "fp_quant", "gemma", "gguf", "metal", "mxfp4", "mxfp8", "nvfp4")


def check(context: Context) -> Iterator[Finding]:
    config = model_config(context)
    inner = config.get("quantization_config") if config is not None else None
    if not isinstance(inner, dict):
        return
    by_width = inner.get("load_in_4bit") or inner.get("load_in_8bit")
    method = OWN if by_width else str(inner.get("quant_method"))
    name = context.text(MODEL)
    if method in NEVER_TRAINED:
        because = f"transformers does not train {method}, and raises ValueError when the Trainer is built"
        message = f"{name} cannot be trained: it is quantized with {method}"
        yield context.finding(message, MODEL, because, fix="model_name_or_path: the model in full precision")
    elif context.has_section("quantization"):
        yield from _twice(context, name, method, inner)
    elif method in BY_ADAPTER and not context.has_section("lora"):
        message = f"{name} is quantized with {method} and cannot be trained without an adapter"
        why = "transformers raises ValueError for purely quantized models, after loading the model"
        yield context.wrong(message, MODEL, why, {"r": 16, "lora_alpha": 32}, at=("lora",))
    elif method in NEEDS:
        because = f"it needs {' or '.join(NEEDS[method])}, and transformers raises ImportError without"
        yield context.not_checked(f"not checked: whether a model quantized with {method} can be loaded", MODEL, because)
    elif method not in (OWN, *OTHERS):
        message = f"{name} is quantized with {method}, which transformers does not know"
        because = "transformers only warns, and loads the packed numbers as if they were weights"
        fix = "model_name_or_path: the model in full precision"
        yield context.finding(message, MODEL, because, fix=fix, severity="warning")


def _twice(context: Context, name: str, method: str, inner: Mapping[str, object]) -> Iterator[Finding]:
    if method != OWN:
        because = "transformers raises ValueError for a second configuration, while loading the model"
        yield context.wrong(f"{name} is already quantized with {method}", "quantization", because)
        return
    for field, value in context.settings.under("BitsAndBytesConfig").items():
        own = inner.get(field)
        key = f"BitsAndBytesConfig.{field}"
        if own is None or own == value or not context.is_given(key):
            continue
        message = f"{field} is {_format_value(value)}, but the checkpoint was saved with {_format_value(own)}"
        because = "transformers uses the checkpoint's values, and only warns about the recipe's"
        yield context.wrong(message, key, because, own)


def _format_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
