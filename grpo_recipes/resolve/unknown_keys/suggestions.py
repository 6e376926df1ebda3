"""Finds the nearest known key, and the right place, for an unknown one."""

from grpo_recipes.contract.findings.finding import Finding, Patch, Path, path_text
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.facts import Facts
from grpo_recipes.facts.released.shipped import removal
from grpo_recipes.resolve.unknown_keys.other_names import (
    DERIVED,
    PROMPTS,
    finding_of_other_program,
    is_apart,
    not_meant,
)
from grpo_recipes.resolve.unknown_keys.other_names import value_written_at as _at
from grpo_recipes.rules._shared.context import finding_at
from grpo_recipes.schemas.fast_accept import OF_ITEMS, is_of_an_item, keys_named, section_keys
from grpo_recipes.schemas.other_names import other_names
from grpo_recipes.yaml.compose import Source

UNKNOWN_KEY = "FCT001"
REMOVED_KEY = "FCT002"
OWNED_KEY = "FCT003"

SWITCHES_ON, SWITCHES_OFF = ("enabled", "is_enabled", "enable", "use", "active", "on"), ("disabled", "disable", "off")
# With the name of the section: use_lora, enable_lora, lora_enabled.
NAMED_SWITCHES = ("use_{}", "use_peft", "enable_{}", "{}_enabled")
OPEN_SECTIONS = {"trl": "GRPOConfig", "lora": "LoraConfig", "quantization": "BitsAndBytesConfig"}


def finding_of_unknown_key(path: Path, value: object, facts: Facts, source: Source) -> Finding:
    """The finding for a key that its section does not have."""
    section, name = path_text(path[:-1]), str(path[-1])
    where = f"`{section}`" if section else "a recipe"
    # A warm start has its own steps and rates, whose names are near those of GRPO.
    return (
        (_nearest(path, value, facts, source) if section == "warm_start" else None)
        or _switch(path, value, source)
        or finding_of_other_program(
            path, value, f"{'' if section else 'the top level of '}{where} has no key {name}", UNKNOWN_KEY, source
        )
        or _section_of_another_name(path, value, source)
        or _removal_finding(path, facts, source)
        or _elsewhere(path, value, facts, source)
        or _nearest(path, value, facts, source)
        or finding_at(
            source,
            UNKNOWN_KEY,
            path,
            f"{where} has no key {name}",
            because=("nothing reads it", *_list_keys(path, facts)),
            fix=f"remove {name}, if you do not need it",
        )
    )


def _switch(path: Path, value: object, source: Source) -> Finding | None:
    """The finding for a switch such as `enabled` in a section that is on by being written; None for any other key."""
    section, name = str(path[0]), str(path[-1])
    on = (*SWITCHES_ON, *(named.format(section) for named in NAMED_SWITCHES))
    if len(path) != 2 or not isinstance(value, bool) or name not in (*on, *SWITCHES_OFF):
        return None
    from grpo_recipes.schemas.models import is_switched_by_being_written  # only needed for a mistake

    if not is_switched_by_being_written(section):
        return None
    is_off = value == (name in SWITCHES_OFF)
    removed = path[:1] if is_off else path
    return finding_at(
        source,
        UNKNOWN_KEY,
        path,
        f"`{section}` has no key {name}",
        because=(f"a recipe with the section {section} uses it, and one without it does not",),
        patch=(Patch(removed, remove=True),),
    )


def _section_of_another_name(path: Path, value: object, source: Source) -> Finding | None:
    section = other_names()["sections"].get(str(path[0])) if len(path) == 1 and isinstance(value, dict) else None
    if section is None:
        return None
    return _move(path, section, value, f"the top level of a recipe has no key {path[0]}", source)


def finding_of_own_key(path: Path, source: Source) -> Finding | None:
    """The finding for a GRPOConfig field that has its own key, or that grpo-run itself sets."""
    field = classified_fields().get(str(path[-1]))
    if field is None or not (field.home or field.owner):
        return None
    # A rule judges each value of generation_kwargs.
    same = next((key for key in keys_named(field.name) if field.owner == f"write {key}"), None)
    field = field._replace(home=field.home or same)
    home_path = tuple((field.home or "").split("."))
    value, there = _at(source, path), _at(source, home_path) if field.home else None
    taken = there is not None
    home = f"write it as {field.home}" if field.home else field.owner
    patch: tuple[Patch, ...] = (Patch(path, remove=True),)
    if not field.home and field.owner:
        patch = patch if _has_to_go(field.owner) else ()
    fix = f"remove {field.name}, since {field.home} is written" if taken else home
    if isinstance(value, dict) and isinstance(there, dict) and value != there:
        fix, patch = f"move its keys to {field.home}", ()  # the intended value is unknown
    return finding_at(
        source,
        OWNED_KEY,
        path,
        f"{field.name} does not belong under `trl`",
        because=("each value has one place, since two could disagree",)
        if field.home
        else ("grpo-run sets this field itself",),
        fix=fix,
        patch=patch if not field.home or taken else (*patch, Patch(home_path, value)),
    )


def _has_to_go(advice: str) -> bool:
    """Whether a field has no replacement, so that removing it is the whole fix."""
    return not advice.startswith(("write ", "deprecated; write "))


def _removal_finding(path: Path, facts: Facts, source: Source) -> Finding | None:
    name = str(path[-1])
    field = classified_fields().get(name)
    if field is not None and field.home:
        return None  # the format has it for all releases
    removed = facts.removal_of("GRPOConfig", name)
    has_it_still = removed is None and name not in classified_fields()
    if has_it_still:
        removed = removal("GRPOConfig", name)
    if removed is None:
        return None
    today = classified_fields().get(removed.renamed_to or "")
    fix = removed.instead or f"remove {name}"
    patch: tuple[Patch, ...] = (Patch(path, remove=True),)
    if today is not None and today.owner:
        fix, patch = today.owner, patch if _has_to_go(today.owner) else ()
    elif today is not None:
        home = today.home or f"trl.{today.name}"
        home_path, value = tuple(home.split(".")), _at(source, path)
        if _at(source, home_path) is not None:
            fix, patch = f"keep one of the two, as {home}", ()
        elif name == "warmup_ratio" and not _is_share(value):
            fix, patch = removed.instead, ()  # it would mean something else as a number of steps
        else:
            fix, patch = f"write it as {home}", (*patch, Patch(home_path, value))
    elif not fix.startswith(("nothing:", "remove ")):
        patch = ()  # only the user can choose the replacement
    went = f"{removed.package} {removed.removed_in} removed it from GRPOConfig"
    return finding_at(
        source,
        REMOVED_KEY,
        path,
        f"only older releases use the name {name}" if has_it_still else f"{name} no longer exists",
        because=(f"{went}; the format has the newest names for all releases" if has_it_still else went,),
        fix=fix,
        patch=patch,
    )


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1


def _move(path: Path, target: str, value: object, message: str, source: Source) -> Finding:
    target_path = tuple(target.split("."))
    is_override = source.is_override(path)
    over = source.what_it_overrides(path, target_path)
    taken = _at(source, target_path) is not None and not is_override and not over
    finding = Finding(UNKNOWN_KEY, "error", message, path_text(path), source.mark(path))
    if is_apart(path, target_path, source):
        return not_meant(finding, path, target)
    return finding._replace(
        because=(f"the format has {target}" + (", which is written too" if taken else ""), *([over] if over else [])),
        fix=f"keep one of the two, as {target}" if taken else f"write it as {target}",
        patch=() if taken or is_override else (Patch(path, remove=True), Patch(target_path, value)),
    )


def _elsewhere(path: Path, value: object, facts: Facts, source: Source) -> Finding | None:
    """The finding for a key of another section, or a field of an open section; None for any other."""
    section, name = path_text(path[:-1]), str(path[-1])
    if is_of_an_item(path, name):
        return None
    named = [key for key in keys_named(name) if not key.startswith(OF_ITEMS)]
    where = f"`{section}`" if section else "the top level of a recipe"
    message = f"{where} has no key {name}"
    if named:
        return _move(path, named[0], value, message, source)
    field = classified_fields().get(name)
    if field is not None and section != "trl":
        if name in DERIVED and _at(source, PROMPTS) is not None:
            return _batch_finding(path, message, source)
        if field.home:
            return _move(path, field.home, value, message, source)
        if field.owner:
            return finding_at(
                source,
                OWNED_KEY,
                path,
                message,
                because=(f"{name} is a GRPOConfig field that a recipe does not set by itself",),
                fix=field.owner,
                patch=(Patch(path, remove=True),) if _has_to_go(field.owner) else (),
            )
        return _move(path, f"trl.{name}", value, message, source)
    for open_section, owner in OPEN_SECTIONS.items():
        if open_section != section and name in (facts.fields(owner) or {}):
            return _move(path, f"{open_section}.{name}", value, message, source)
    return None


def _batch_finding(path: Path, message: str, source: Source) -> Finding:
    """The finding for a batch field of TRL that would contradict the prompts per step, wherever it was written."""
    return finding_at(
        source,
        UNKNOWN_KEY,
        path,
        message,
        because=(f"{path_text(PROMPTS)}, which is written too, gives {DERIVED[str(path[-1])]}",),
        patch=(Patch(path, remove=True),),
    )


def _nearest(path: Path, value: object, facts: Facts, source: Source) -> Finding | None:
    section, name = path_text(path[:-1]), str(path[-1])
    here = [key.rpartition(".")[2] for key in _section_keys(path, facts)]
    where = f"`{section}`" if section else "the top level of a recipe"
    if not path[:-1] and not isinstance(value, dict):
        here = [key for key in here if key not in section_keys() and key != "trl"]
    close = nearest_words(name, here, cutoff=0.7)
    field = classified_fields().get(close[0]) if close and section == "trl" else None
    if field is not None and field.home:
        return _move(path, field.home, value, f"{where} has no key {name}", source)
    if not close:
        return None
    right = (*path[:-1], close[0])
    over = source.what_it_overrides(path, right)
    is_taken = _at(source, right) is not None and not source.is_override(path) and not over
    nearest = f"the nearest key it has is {close[0]}" + (", which is written too" if is_taken else "")
    return finding_at(
        source,
        UNKNOWN_KEY,
        path,
        f"{where} has no key {name}",
        because=(nearest, *([over] if over else [])),
        fix=f"keep one of the two, as {close[0]}" if is_taken else f"write it as {close[0]}",
        patch=() if is_taken else (Patch(path, remove=True), Patch(right, value)),
    )


def _section_keys(path: Path, facts: Facts) -> list[str]:
    above = [part for part in path[:-1] if isinstance(part, str)]  # a reward of the list is one of "rewards"
    if tuple(above[:2]) == ("evaluation", "sets"):
        del above[2:3]  # the name of a set
    top = ".".join(above)
    keys = list(section_keys().get(top, ()))
    keys.extend(facts.fields(OPEN_SECTIONS[top]) or ()) if top in OPEN_SECTIONS else None
    return [*dict.fromkeys(keys)]


def _list_keys(path: Path, facts: Facts) -> tuple[str, ...]:
    keys = _section_keys(path, facts)
    if len(keys) > 20:
        return ()
    return (f"it has {', '.join(keys)}",)
