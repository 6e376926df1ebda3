"""Every key of `rank_pattern` and `alpha_pattern` matches a module that gets an adapter.

A key is the last part of a module's name, or a regular expression for its end. If a key matches no adapted module, PEFT
0.21 warns and ignores it, and those modules get the ordinary `r` and `lora_alpha`; older releases ignore it silently. A
rank is a whole number of at least 1; otherwise PEFT cannot build the adapter and says so only after loading the model.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.contract.patterns import Asked, ask
from grpo_recipes.facts.module_names import typical_names
from grpo_recipes.rules._shared.adapter_modules import model_with_adapter, pattern_text, select_modules
from grpo_recipes.rules._shared.context import Context

ID = "LRA004"
RANKS, SCALES = "LoraConfig.rank_pattern", "LoraConfig.alpha_pattern"


def check(context: Context) -> Iterator[Finding]:
    if not context.has_section("lora"):
        return
    yield from _nothing(context)
    if not (context.value(RANKS) or context.value(SCALES)):
        return
    model = model_with_adapter(context)
    modules = None if model is None else select_modules(context, model[1])
    for key in (RANKS, SCALES):
        patterns = tuple(map(str, context.mapping(key)))
        all_asked = ask(tuple(rf"(.*\.)?({pattern})" for pattern in patterns), tuple(modules or typical_names()))
        for (pattern, value), asked in zip(context.mapping(key).items(), all_asked, strict=True):
            yield from _value(context, key, pattern, value)
            yield from _pattern(context, key, str(pattern), modules, asked)


def _nothing(context: Context) -> Iterator[Finding]:
    for key in (RANKS, SCALES):
        if context.is_given(key) and context.value(key) is None:
            path = ("lora", key.partition(".")[2])
            because = "PEFT raises AttributeError for null, after loading the model"
            yield context.wrong(f"{path[1]} is null, but must be a map", key, because, at=path, fix=f"remove {path[1]}")


def _value(context: Context, key: str, pattern: str, value: object) -> Iterator[Finding]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and (key == SCALES or (isinstance(value, int) and value >= 1)):
        return
    name = key.partition(".")[2]
    path = ("lora", name, pattern)
    text = f"{name} of {pattern} is {value}, but must be a {'whole number of at least 1' if key == RANKS else 'number'}"
    because = "PEFT raises TypeError or ValueError when it builds the adapter, after loading the model"
    yield context.wrong(text, key, because, at=path)


def _pattern(context: Context, key: str, pattern: str, modules: list[str] | None, asked: Asked) -> Iterator[Finding]:
    path, name = ("lora", key.partition(".")[2], pattern), key.partition(".")[2]
    if asked.problem:
        message = f"{pattern_text(pattern)} in {name} is not a regular expression"
        because = f"{asked.problem}; PEFT raises it"
    elif asked.slow:
        message = f"{pattern_text(pattern)} in {name} takes too long to match"
        because = f"{asked.slow}; PEFT matches it against each module and cannot be stopped"
    else:
        if modules is None or (modules and not asked.finds) or (modules and any(asked.finds)):
            return
        endings = list(dict.fromkeys(module.rpartition(".")[2] for module in modules))
        message = f"{name} has {pattern}, which matches no module with an adapter"
        because = f"the adapted modules are {', '.join(endings)}; they get the ordinary value"
        close = nearest_words(pattern, endings, cutoff=0.6)
        if close and close[0] not in context.mapping(key):
            value = context.mapping(key)[pattern]
            patch = [Patch(path, remove=True), Patch((*path[:-1], close[0]), value)]
            fix = f"{name}: {{{close[0]}: {value}}}"
            context.source.mark(path)
            yield context.finding(message, key, because, fix=fix, patch=patch)
            return
    context.source.mark(path)
    patch = [Patch(path, remove=True)]
    yield context.finding(message, key, because, patch=patch)
