"""Takes over GRPOConfig fields by the tables of their homes, and by a function where a value depends on other keys."""

from collections.abc import Callable, Mapping
from typing import Any

from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.facts.classified import ClassifiedField, classified_fields
from grpo_recipes.facts.released.shipped import Removed, removal
from grpo_recipes.facts.source.field import Field
from grpo_recipes.takeover.basis.context import Situation
from grpo_recipes.takeover.basis.draft import Unreadable, cases_of, is_among
from grpo_recipes.takeover.basis.read import table_of, whole_steps
from grpo_recipes.takeover.basis.release import default_of, in_format_words, is_same
from grpo_recipes.takeover.basis.trl_values import as_trl_reads
from grpo_recipes.trust.environment import why_refused

# Fields that also process other keys.
ANNOTATIONS = {"scale_rewards": "bool | str"}
# Other keys set the same recipe key, and win.
OVERRIDDEN: tuple[str, ...] = ("report_to", "adafactor", "activation_checkpointing", "activation_checkpointing_kwargs")
OVERRIDDEN += ("use_liger_loss", "vllm_max_model_len")
# Keys of a value that says how the release expresses others.
ASKED = ("use_vllm", "loss_type", "gradient_accumulation_steps", "steps_per_generation", "generation_batch_size")


def take_fields(situation: Situation) -> None:
    """Takes over all remaining keys: first those with a function, then the others."""
    given = situation.given
    for name in [*SPECIAL, *given.values]:
        if name not in given:
            continue
        try:
            SPECIAL.get(name, take_field)(situation, name)
        except Unreadable as problem:
            field = _field(name)[0]
            given.refuse_key(name, f"TRL cannot take it: {problem}", field.home or "" if field else "")


def _field(name: str) -> tuple[ClassifiedField | None, Removed | None]:
    """The field that a key is today, None without one, and where the key went."""
    field = classified_fields().get(name)
    gone = None if field is not None and field.home else removal("GRPOConfig", name)
    return (classified_fields().get(gone.renamed_to) if gone is not None and gone.renamed_to else field), gone


def take_field(situation: Situation, name: str) -> None:
    """Takes over one key."""
    given, tables = situation.given, table_of("trl")
    entry = (tables["open_r1"].get(name) if situation.dialect == "open_r1" else None) or tables["trl"].get(name, [])
    case = next((case for case in cases_of(entry) if _holds(situation, name, case)), None)
    field, gone = _field(name)
    if case is not None:
        given.answer(name, case)
    elif field is None:
        given.refuse_key(name, _why_unknown(name, gone))
    else:
        value = as_trl_reads(given.values[name], _annotation(situation, name, field))
        if field.name == name or field.name not in given:
            _place(situation, name, field, value, gone)
        elif value is None:
            given.map_key(name, because=f"{field.name} is its name today, and is written")
        else:
            because = f"it is {field.name} under an older name, and both are written"
            given.refuse_key(name, because, field.home or "")


def _holds(situation: Situation, name: str, case: Mapping[str, Any]) -> bool:
    """Whether a case of a table holds.

    is, not: values of the key. asked: values of other keys, where null is also a missing one. in: releases. declared:
    whether the author named the release.
    """
    given, release = situation.given, situation.release
    others = {**given.taken, **given.values}
    values = {name: case["is"]} if "is" in case else {}
    asked = all(is_among(others.get(key), known) for key, known in (values | case.get("asked", {})).items())
    is_release = release.is_in(case.get("in", {})) and (release.is_declared or not case.get("declared"))
    return asked and is_release and not is_among(given.values[name], case.get("not", ()))


def _place(situation: Situation, name: str, field: ClassifiedField, value: object, gone: Removed | None) -> None:
    given, release = situation.given, situation.release
    asked = {asked: situation.value(asked) for asked in ASKED}
    value = in_format_words(field, value, release, asked)
    because = f"its name is {field.name} today" if field.name != name else ""
    if field.home:
        given.map_key(name, field.home, value, because)
    elif field.owner:
        given.refuse_key(name, field.owner)
    elif name not in release.fields and gone is None and field.kind != "experiment":
        given.emulate_key(name, f"{release.name} have no such field: it is a key of the script")
    elif gone is not None and gone.removed_in and not gone.renamed_to:
        fate = given.refuse_key if field.kind == "experiment" else given.emulate_key
        fate(name, f"{gone.package} {gone.removed_in} removed it; instead: {gone.instead}")
    elif name == field.name and _is_default(situation, field, value, asked):
        given.map_key(name, because="the default")
    else:
        given.map_key(name, f"trl.{field.name}", value, because)


def _is_default(situation: Situation, field: ClassifiedField, value: object, asked: Mapping[str, object]) -> bool:
    """Whether the release and the format both give a key without a section this value if it is missing."""
    is_there = field.name in situation.release.fields
    is_said = is_there and is_same(value, default_of(field, situation.release, asked))
    return is_said and (not field.has_value or is_same(value, field.value))


def _annotation(situation: Situation, name: str, field: ClassifiedField) -> str:
    there: Field | None = situation.release.fields.get(name) or situation.release.fields.get(field.name)
    return ANNOTATIONS.get(field.name, "" if there is None else there.annotation)


def script_keys() -> list[str]:
    """The keys of TRL's and open-r1's scripts."""
    parts = ("script_arguments", "model_config", "open_r1_keys", "accelerate_launch", "trl", "options_of_rewards")
    return [*classified_fields(), *(name for part in parts for name in table_of("trl")[part])]


def _why_unknown(name: str, gone: Removed | None) -> str:
    if gone is not None:
        return f"{gone.package} {gone.removed_in} removed it; instead: {gone.instead}"
    near = nearest_words(name, script_keys(), cutoff=0.8)
    meant = f"; the nearest is {near[0]}" if near else ""
    return f"it is not a key of ScriptArguments, GRPOConfig or ModelConfig in any release{meant}"


def _warmup_ratio(situation: Situation, name: str) -> None:
    """A share of all steps becomes a number below 1 in warmup_steps; a number of steps next to it wins."""
    given, home = situation.given, "training.warmup_steps"
    share = as_trl_reads(given.values[name], "float | None")
    steps = as_trl_reads(given.values.get("warmup_steps", 0), "int | float")
    if isinstance(steps, int | float) and steps > 0:
        given.emulate_key(name, "warmup_steps is written too, and wins")
    elif share in (None, 0):
        given.map_key(name, because="no warm-up")
    elif share == 1:
        given.refuse_key(name, "a warm-up over all steps is not a share below 1; write their number", home)
    else:
        given.map_key(name, home, share, "a share of all steps")
        if "warmup_steps" in given:
            given.map_key("warmup_steps", because="warmup_ratio decides")


def _save_strategy(situation: Situation, name: str) -> None:
    given = situation.given
    if given.values[name] != "steps" and "save_steps" in given:
        given.emulate_key("save_steps", f"it is not read with save_strategy {given.values[name]}")
    take_field(situation, name)


def _steps(situation: Situation, name: str) -> None:
    """Takes over a number of steps; a share of all steps is unknown before the run."""
    given, home = situation.given, classified_fields()[name].home or ""
    value = as_trl_reads(given.values[name], "float")
    whole = whole_steps({**given.taken, **given.values}, value)
    if whole is not None:
        given.map_key(name, home, whole, because=f"{value:g} of all steps")
    elif isinstance(value, float) and 0 < value < 1:
        steps = 500 if name == "save_steps" else 1
        given.emulate_key(name, "it is a share of all steps; choose their number", home, steps)
    elif isinstance(value, int | float) and float(value).is_integer():
        given.map_key(name, home, int(value))
    else:
        given.refuse_key(name, "it must be a number of steps", home)


def _chat_template(situation: Situation, name: str) -> None:
    """Writes a template in the file to a file next to the recipe."""
    given, home, text = situation.given, "tokenizer.chat_template_path", situation.given.values[name]
    if text is None:
        given.map_key(name)
    elif not situation.writes_files:
        given.refuse_key(name, "a recipe names a template's file; with -o it is written next to the recipe", home)
    else:
        file = f"{situation.stem}.chat_template.jinja"
        situation.draft.files[file] = str(text)
        given.emulate_key(name, "a file next to the recipe", home, f"./{file}")


def _environment(situation: Situation, name: str) -> None:
    """Takes over `env`, which TrlParser puts into the environment."""
    inside = situation.given.inside(name)
    for variable, value in list(inside.values.items()):
        reason = why_refused(str(variable), str(value))
        if reason is None:
            inside.map_key(variable, f"launch.environment.{variable}", str(value))
        else:
            inside.values[variable] = "..."
            inside.refuse_key(variable, reason, "launch.environment")


SPECIAL: dict[str, Callable[[Situation, str], None]] = {
    "env": _environment,
    "chat_template": _chat_template,
    "warmup_ratio": _warmup_ratio,
    "save_strategy": _save_strategy,
    **dict.fromkeys(("save_steps", "logging_steps"), _steps),
    **dict.fromkeys(OVERRIDDEN, take_field),
}
