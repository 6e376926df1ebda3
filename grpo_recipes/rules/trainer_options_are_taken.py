"""The trainer and torch accept the options under `trl:`.

TrainingArguments checks only some of them. torch checks the rest when the Trainer is built or the first batch is drawn,
after loading the model: options of the data loader that need workers, names for logging and compiling, and numbers
below their minimum.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.rules._shared.context import Context

ID = "TRN004"
WORKERS = "dataloader_num_workers"
# Options of workers, and their inactive values.
OF_WORKERS = {
    "dataloader_prefetch_factor": (None,),
    "dataloader_persistent_workers": (None, False),
    "dataloader_multiprocessing_context": (None,),
}
# name: the smallest whole number, and what happens below it.
SMALLEST = {
    WORKERS: (0, "torch's data loader raises ValueError at the first batch"),
    "dataloader_prefetch_factor": (1, "torch's data loader fails an assertion at the first batch"),
    "ddp_timeout": (1, "it is the number of seconds that processes wait for each other"),
    "torch_empty_cache_steps": (1, "TrainingArguments raises ValueError"),
}


def check(context: Context) -> Iterator[Finding]:
    for name, (smallest, because) in SMALLEST.items():
        value = context.value(f"GRPOConfig.{name}")
        if isinstance(value, int | float) and not isinstance(value, bool) and value < smallest:
            message = f"{name} is {value}, but must be at least {smallest}"
            yield context.wrong(message, f"GRPOConfig.{name}", because, smallest)
    for name, (words, because) in table("trainer_words")["options"].items():
        yield from _words(context, name, words, because)
    workers = context.value(f"GRPOConfig.{WORKERS}")
    for name, nothing in OF_WORKERS.items():
        if context.value(f"GRPOConfig.{name}") not in nothing and workers in (None, 0):
            because = "without worker processes the trainer or the data loader raises ValueError"
            yield context.wrong(f"{name} needs {WORKERS}", f"GRPOConfig.{name}", because)


def _words(context: Context, name: str, words: list[str], because: str) -> Iterator[Finding]:
    value = context.value(f"GRPOConfig.{name}")
    if not isinstance(value, str):
        return
    for word in value.split() if name == "debug" else [value]:
        if (word.lower() if name == "torch_compile_backend" else word) in words:
            continue
        near = nearest_words(word, words, cutoff=0.6)
        message, because = f"{name} cannot be {word}", f"it must be one of {', '.join(words)}; otherwise {because}"
        yield context.wrong(message, f"GRPOConfig.{name}", because, near[0] if near else None)
        return
