"""An adapter is initialised as `init_lora_weights` says.

Three initialisations read the model or the data before the adapter is built, which neither TRL nor grpo-run does. PEFT
then silently uses the default initialisation for `eva` and `lora_ga`, and raises ValueError for `corda`. `pissa`,
`orthogonal` and `mica` read the weights themselves and fail on quantized weights, after loading the model. PEFT also
rejects unknown words only at that point. With false, the adapter starts with random values, so the policy starts as a
damaged model; PEFT offers this for tests.
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import is_quantized

ID = "LRA007"
START, RANK = "LoraConfig.init_lora_weights", "LoraConfig.r"
PREPARED = ("eva", "lora_ga")
UNQUANTIZED = ("pissa", "orthogonal", "mica")
WORDS = ("gaussian", "olora", "pissa", "corda", "loftq", "orthogonal", "mica", *PREPARED)


def check(context: Context) -> Iterator[Finding]:
    start = context.value(START) if context.has_section("lora") else None
    if isinstance(start, str):
        yield from _word(context, start)
    elif start is False:
        because = "a random adapter changes the base model, so the first completions come from a damaged model"
        message = "init_lora_weights false starts from a random adapter"
        yield context.wrong(message, START, because, True, severity="warning")


def _word(context: Context, start: str) -> Iterator[Finding]:
    kind = "pissa" if re.fullmatch(r"pissa_niter_\d+", start) else start
    lowered = start.lower()
    if kind not in WORDS and lowered not in ("gaussian", "olora", "mica"):
        close = nearest_words(lowered, WORDS, cutoff=0.6)
        message = f"init_lora_weights {start!r} is unknown to PEFT"
        because = f"PEFT raises ValueError after loading the model; it accepts true, {', '.join(WORDS)}, pissa_niter_16"
        yield context.wrong(message, START, because, close[0] if close and close[0] not in PREPARED else None)
    elif kind in PREPARED:
        because = "grpo-run does not prepare this initialisation, so PEFT silently uses the default"
        yield context.wrong(f"init_lora_weights {kind} is not supported", START, because, True)
    elif kind == "corda":
        because = "PEFT raises ValueError for a layer without `preprocess_corda`, after loading the model"
        yield context.wrong("init_lora_weights corda is not supported", START, because, True)
    elif kind == "loftq" and not context.value("LoraConfig.loftq_config"):
        because = "LoraConfig raises ValueError without it"
        yield context.wrong("init_lora_weights loftq needs a loftq_config", START, because)
    elif kind == "orthogonal" and context.whole(RANK) % 2:
        because = "PEFT raises ValueError for an odd rank, after loading the model"
        message = f"init_lora_weights orthogonal needs an even r, but r is {context.value(RANK)}"
        yield context.wrong(message, START, because)
    elif is_quantized(context) and (kind in UNQUANTIZED or lowered == "mica"):
        because = "PEFT raises TypeError or RuntimeError for integer weights, after loading the model"
        yield context.wrong(f"init_lora_weights {kind} needs a model that is not quantized", START, because)
    elif is_quantized(context) and kind == "loftq":
        because = "loftq quantizes the base itself, from full weights"
        yield context.wrong("init_lora_weights loftq needs a model that is not quantized", START, because)
