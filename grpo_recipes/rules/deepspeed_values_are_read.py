"""DeepSpeed can read every value under distributed.deepspeed, and `auto` is used only where it is filled in.

DeepSpeed checks types and ranges when training starts, after loading the model. The trainer fills in "auto" for what it
knows, which grpo-run writes anyway, and for three sizes that follow the model; for any other key, accelerate raises
ValueError.
"""

from collections.abc import Iterator, Mapping
from math import isfinite

from grpo_recipes.contract.findings.finding import Finding, Path
from grpo_recipes.facts.deepspeed_keys import deepspeed_keys
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.plain_values import WORDS as WORDS_OF

ID = "DSP003"
KEY = "distributed.deepspeed"
HOME: Path = ("distributed", "deepspeed")
ZERO = "zero_optimization"
FILLED = frozenset(
    f"{ZERO}.{name}"
    for name in ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold")
)
WORDS = {"communication_data_type": ("fp16", "bf16", "fp32"), "gradient_allreduce_op": ("mean", "sum")}
BOOLEANS = ("true", "false", "yes", "no", "on", "off", "t", "f", "y", "n", "1", "0")


def check(context: Context) -> Iterator[Finding]:
    keys = context.mapping(KEY)
    if keys and context.text("distributed.strategy").startswith("zero"):
        yield from _walk(context, keys, ())


def _walk(context: Context, keys: Mapping[str, object], above: tuple[str, ...]) -> Iterator[Finding]:
    known = deepspeed_keys()
    for key, value in keys.items():
        path = (*above, key)
        name = ".".join(path)
        if name in known.owned:
            continue  # DSP001
        if isinstance(value, dict):
            yield from _walk(context, value, path)
        elif value == "auto":
            if name not in FILLED:
                because = "accelerate raises ValueError when training starts"
                yield _finding(context, path, f"{name} cannot be auto: nothing fills it in", because)
        elif key in WORDS and not above and str(value).lower() not in WORDS[key]:
            yield _finding(context, path, f"{name} cannot be {value}", f"it must be one of {', '.join(WORDS[key])}")
        elif wanted := _unlike(value, known.values.get(".".join(above), {}).get(key)):
            because = f"it must be {wanted}, and DeepSpeed raises ValidationError when training starts"
            yield _finding(context, path, f"{name} cannot be {'null' if value is None else value}", because)


def _finding(context: Context, path: tuple[str, ...], message: str, because: str) -> Finding:
    same = context.stack.version("deepspeed") == deepspeed_keys().release  # a different one may accept it
    name = ".".join(path)
    return context.wrong(
        message, KEY, because, at=(*HOME, *path), fix=f"remove {name}", severity="error" if same else "warning"
    )


def _unlike(value: object, kind: list[object] | None) -> str:
    """What the value should be, "" if it is right or nothing is known about it."""
    if kind is None:
        return ""
    name, least, greatest, nullable = kind
    if value is None:
        return "" if nullable else WORDS_OF[str(name)]
    if name == "bool":
        return "" if value in (True, False) or str(value).lower() in BOOLEANS else WORDS_OF["bool"]
    try:
        number = float(str(int(value) if isinstance(value, bool) else value))
    except ValueError:
        return WORDS_OF[str(name)]
    whole = isfinite(number) and number == int(number) and (not isinstance(value, str) or value.strip("+- ").isdigit())
    if name == "int" and not whole:
        return WORDS_OF["int"]
    if isinstance(least, int | float) and number < least:
        return f"{least} or more"
    if isinstance(greatest, int | float) and number > greatest:
        return f"{greatest} or less"
    return ""
