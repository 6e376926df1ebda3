"""Every module that an adapter names exists in the model.

PEFT raises ValueError, after loading the model, if it finds none of `target_modules`. If it finds at least one, it
silently ignores the others: `[q_prj, v_proj]` trains an adapter on v_proj only. `modules_to_save` and
`target_parameters` behave alike. A list holds names or their last parts, never patterns. A string is one regular
expression that has to match the whole name, so `q_proj` or `q_proj,v_proj` match nothing. Only linear layers and
embeddings can be adapted, not norms or whole blocks.

The rule knows the names of well-known models, by the class in their config.json. For other models it checks patterns,
and entries that cannot be a name in any model (`q_proj,` with a comma).
"""

import re
from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding, Patch, Path
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.contract.patterns import ask
from grpo_recipes.facts.module_names import ModuleNames, known_endings, typical_names
from grpo_recipes.rules._shared.adapter_modules import (
    TARGETS,
    is_all_linear,
    is_found,
    model_with_adapter,
    pattern_text,
    words,
)
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import model_config, not_at_hand

ID = "LRA003"
SAVED, EXCLUDED = "LoraConfig.modules_to_save", "LoraConfig.exclude_modules"
LAYERS = "LoraConfig.layers_pattern"
NO_NAME = re.compile(r"[\s,;'\"`*()|\\$^+?\[\]{}]")
PARAMETERS, TOKENS = "LoraConfig.target_parameters", "LoraConfig.trainable_token_indices"


def check(context: Context) -> Iterator[Finding]:
    if not context.has_section("lora"):
        return
    model = model_with_adapter(context)
    names = None if model is None else model[1]
    targets = context.value(TARGETS)
    wrong = list(_texts(context, targets, names))
    yield from wrong
    if names is None:
        given = [key for key in (TARGETS, SAVED, PARAMETERS) if context.is_given(key) and context.value(key)]
        asked = [key for key in given if not is_all_linear(context.value(key))]
        if asked and not wrong:
            yield _unknown(context, asked[0])
        return
    everything = names.adapted + names.other
    if isinstance(targets, list):
        yield from _targets(context, targets, names)
    yield from _entries(context, SAVED, names, everything, "PEFT silently trains no copy of it")
    if isinstance(context.value(EXCLUDED), list):
        yield from _entries(context, EXCLUDED, names, everything, "PEFT excludes nothing", severity="warning")
    if isinstance(context.value(TOKENS), dict):
        yield from _entries(context, TOKENS, names, names.embedding, "PEFT raises ValueError after loading the model")
    tensors = names.parameters + tuple(f"{name}.{kind}" for name in names.linear for kind in ("weight", "bias"))
    yield from _entries(context, PARAMETERS, names, tensors, "PEFT silently ignores it if another entry matches")


def _texts(context: Context, targets: object, names: ModuleNames | None) -> Iterator[Finding]:
    """Findings about patterns, and about names if the model's own names are unknown."""
    if isinstance(targets, str) and not is_all_linear(targets):
        yield from _pattern(context, targets, names)
    if isinstance(context.value(EXCLUDED), str):
        yield from _unfit(context, EXCLUDED, str(context.value(EXCLUDED)), names)
    for pattern in words(context.value(LAYERS)):
        yield from _unfit(context, LAYERS, pattern, names, r".*\.%s\.(\d+)\..*")
    for key in (TARGETS, SAVED, EXCLUDED) if names is None else ():
        yield from _misspelt(context, key)


def _pattern(context: Context, pattern: str, names: ModuleNames | None) -> Iterator[Finding]:
    listed = re.split(r"\s*[,;|]\s*|\s+", pattern.strip("[]() "))
    if all(re.fullmatch(r"\w+", part) for part in listed) and (len(listed) > 1 or pattern in known_endings()):
        if pattern == "lm_head" or ("|" in pattern and "lm_head" in listed):
            return
        because = (
            "a string is one regular expression that has to match a module's whole name; this one matches no module"
        )
        yield _finding(context, TARGETS, f"target_modules {pattern!r} is a string, not a list", because, listed)
        return
    wrong = list(_unfit(context, TARGETS, pattern, names))
    yield from wrong
    finds = ask((pattern,), names.adapted)[0].finds if names is not None and not wrong else ()
    if finds and not any(finds) and names is not None and not names.also:
        because = (
            f"it must match a whole name, such as {names.linear[0]}; PEFT raises ValueError after loading the model"
        )
        ending = rf".*\.({pattern})"
        fix = ending if any(ask((ending,), names.adapted)[0].finds) else None
        yield _finding(context, TARGETS, f"target_modules {pattern!r} matches no module", because, fix)


def _unfit(
    context: Context, key: str, pattern: str, names: ModuleNames | None, around: str = "%s"
) -> Iterator[Finding]:
    """A finding for a text that is not a pattern, or is too slow to match. around: what PEFT wraps it in."""
    asked = ask((around % pattern,), typical_names() if names is None else names.adapted)[0]
    field = key.partition(".")[2]
    if asked.problem:
        message = f"{field} {pattern_text(pattern)} is not a regular expression"
        fix = pattern.replace("*", ".*") if re.fullmatch(r"[\w*]+", pattern) else None  # a shell's pattern
        yield _finding(context, key, message, f"{asked.problem}; PEFT raises it after loading the model", fix)
    elif asked.slow:
        message = f"{field} {pattern_text(pattern)} takes too long to match"
        because = f"{asked.slow}; PEFT matches it against each module and cannot be stopped"
        yield _finding(context, key, message, because, None)


def _misspelt(context: Context, key: str) -> Iterator[Finding]:
    """A finding for a list entry that cannot be a module's name: no name has a comma, space or quote."""
    value = context.value(key)
    entries = words(value) if isinstance(value, list) else []
    wrong = [entry for entry in entries if NO_NAME.search(entry)]
    meant = [part.strip(" '\"`[]") for entry in entries for part in entry.split(",") if part.strip(" '\"`[]")]
    if not wrong:
        return
    because = "a list holds whole names or their last parts; PEFT silently ignores a name that it does not find"
    fix: object = None if any(NO_NAME.search(part) for part in meant) else list(dict.fromkeys(meant))
    if fix is None and len(entries) == 1 and key == TARGETS and not ask((entries[0],), ())[0].problem:
        fix = entries[0]  # a string is a pattern
    yield _finding(
        context, key, f"{wrong[0]!r} cannot be the name of a module", because, fix, (entries.index(wrong[0]),)
    )


def _targets(context: Context, targets: list[object], names: ModuleNames) -> Iterator[Finding]:
    if not targets and not context.value(PARAMETERS):
        because = "PEFT raises ValueError when it finds none, after loading the model"
        yield _finding(context, TARGETS, "target_modules is empty", because, "all-linear")
    is_alone = not any(is_found(target, names, names.adapted) for target in words(targets))
    silent = "PEFT silently ignores it, since it finds another module"
    because = "PEFT raises ValueError when it finds none, after loading the model" if is_alone else silent
    yield from _entries(context, TARGETS, names, names.adapted, because)


def _entries(
    context: Context, key: str, names: ModuleNames, among: tuple[str, ...], because: str, severity: str = "error"
) -> Iterator[Finding]:
    """A finding for each entry of a list, or key of a map, that matches none of these names."""
    value, field = context.value(key), key.partition(".")[2]
    entries = words(value) if isinstance(value, list | dict) else []
    # For modules_to_save PEFT compares only the end, also within a part.
    short = [entry for entry in entries if key == SAVED and any(name.endswith(entry) for name in among)]
    wrong = [entry for entry in entries if entry not in short and not is_found(entry, names, among)]
    fix = _mend(value, {entry: _nearest(entry, key, names, among) for entry in wrong})
    for entry in wrong:
        at: Path = (entries.index(entry),) if isinstance(value, list) else (entry,)
        if key == TARGETS and is_found(entry, names, names.other):
            reason = "PEFT raises ValueError for it after loading the model; it adapts linear layers and embeddings"
            yield _finding(context, key, f"{entry} cannot be adapted", reason, fix, at)
            continue
        available = f"{_class(context)} has {', '.join(names.endings())}" if among is not names.embedding else ""
        message = f"{field} names {entry}, which the model does not have"
        yield _finding(context, key, message, because, fix, at, available, severity)


def _nearest(entry: str, key: str, names: ModuleNames, among: tuple[str, ...]) -> list[str]:
    """The nearest name as a list, empty if nothing is near; tensors by the two last parts of their names."""
    parts = 2 if key == PARAMETERS else 1
    known = dict.fromkeys([*(".".join(name.split(".")[-parts:]) for name in among), *among, *names.also])
    return nearest_words(entry, known, cutoff=0.6)


def _mend(value: object, wrong: Mapping[str, list[str]]) -> object:
    """The list or map with wrong names replaced by the nearest ones or removed; None if nothing is left."""
    if isinstance(value, dict):
        return {(wrong.get(key) or [key])[0]: setting for key, setting in value.items() if wrong.get(key) != []} or None
    return list(dict.fromkeys(word for old in words(value) for word in wrong.get(old, [old]))) or None


def _unknown(context: Context, key: str) -> Finding:
    what = f"whether the model has the names in {key.partition('.')[2]}"
    if (config := model_config(context)) is None:
        return not_at_hand(context, what, key)
    architectures = config.get("architectures")
    kind = architectures[0] if isinstance(architectures, list) and architectures else "this model"
    return context.not_checked(f"not checked: {what}", key, f"the names of the modules of {kind} are not known here")


def _class(context: Context) -> str:
    model = model_with_adapter(context)
    architectures = model[0].get("architectures") if model is not None else None
    return str(architectures[0]) if isinstance(architectures, list) else "the model"


def _finding(
    context: Context,
    key: str,
    message: str,
    because: str,
    fix: object,
    at: Path = (),
    available: str = "",
    severity: str = "error",
) -> Finding:
    path: Path = ("lora", key.partition(".")[2])
    is_left_open = fix is None and key == TARGETS
    return context.finding(
        message,
        key,
        [because, *([available] if available else [])],
        fix="name modules of the model, or all-linear for all of its linear layers" if is_left_open else None,
        patch=() if is_left_open else (Patch(path, fix, remove=fix is None),),
        severity="warning" if severity == "warning" else "error",
        mark=context.source.mark((*path, *at)),
    )
