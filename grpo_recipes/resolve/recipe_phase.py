"""Phase 1, recipe: the merged values become a checked Recipe and settings with their lines."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from grpo_recipes.contract.findings.finding import ABSENT, Finding, Mark, Path, path_text, paths_moved_to, value_at
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.facts import Facts
from grpo_recipes.resolve.schema_findings import MISSING_KEY, newer_format, schema_findings
from grpo_recipes.rules._shared.settings import FORMAT_ORIGIN, Setting, Settings
from grpo_recipes.schemas.fast_accept import SectionValues, accept, section_keys
from grpo_recipes.schemas.other_names import other_names
from grpo_recipes.yaml.compose import Source, once_for_a_source
from grpo_recipes.yaml.load import TABLE_OF_KEYS

A_REWARD = {"name": "exact_match"}
# Replaces a missing required value, so that the rest can still be checked.
STAND_INS: dict[Path, object] = {
    ("recipe",): 1,
    ("name",): "unnamed",
    ("model",): {"model_name_or_path": "-"},
    ("model", "model_name_or_path"): "-",
    ("dataset",): {"path": "-"},
    ("dataset", "path"): "-",
    ("rewards",): [{"name": "exact_match"}],
    ("training",): {"prompts_per_step": 1},
    ("training", "cut", "processes"): 1,
    ("training", "cut", "per_device_train_batch_size"): 1,
    ("evaluation", "passes", "reward"): "-",
    ("warm_start", "steps"): 1,
    ("warm_start", "answer"): "{{ answer }}",
    ("warm_start", "learning_rate"): 1e-4,
}
# Removed as a whole if a part is wrong: otherwise list items would be renumbered, and a section without its file is
# useless.
LEFT_OUT = ("tools", "environment", "environments", "rollout")


class Checked(NamedTuple):
    """recipe is None if it cannot be checked any further. refused: paths that have a finding."""

    recipe: SectionValues | None
    refused: frozenset[Path]
    findings: list[Finding]


def check_recipe(source: Source, facts: Facts) -> Checked:
    """Validates the merged values; reports wrong ones, sets them aside, and checks the rest."""
    newer = newer_format(source)
    if newer is not None:
        return Checked(None, frozenset({("recipe",)}), [newer])
    values = source.values
    findings: list[Finding] = []
    refused: set[Path] = set()
    for _ in range(3):  # setting a value aside can uncover another mistake beneath it
        read = _read(source) if values is source.values else _validate(values)
        if isinstance(read, SectionValues):
            places = paths_moved_to(findings)
            return Checked(read, frozenset(refused | places), _without_moved(findings, places))
        by_path = schema_findings(read, facts, source._replace(values=values))
        known = {path[:depth] for path in refused for depth in range(len(path) + 1)}
        findings.extend(finding for path, finding in by_path.items() if path not in known)
        refused |= set(by_path) | {path[:1] for path in by_path if path and path[0] in LEFT_OUT}
        if ("datasets",) in refused:
            refused.add(("dataset",))  # rules know the sources by this name
        values = _set_aside(values, sorted(by_path, key=str, reverse=True))
    return Checked(None, frozenset(refused), findings)


def _without_moved(findings: list[Finding], places: set[Path]) -> list[Finding]:
    """The findings, except those of a missing key that another finding moves into place."""
    there = {path_text(path[:depth]) for path in places for depth in range(1, len(path) + 1)}
    return [finding for finding in findings if finding.rule != MISSING_KEY or finding.key not in there]


def _set_aside(values: dict[str, object], paths: list[Path]) -> dict[str, object]:
    """A copy without these paths, or with a substitute if the format has no default."""
    usable = copy.deepcopy(values)
    for path in paths:
        node = value_at(usable, path[:-1])
        last = path[-1] if path else None
        if path and path[0] in LEFT_OUT:
            usable.pop(str(path[0]), None)
        elif isinstance(node, dict) and path in STAND_INS:
            node[last] = copy.deepcopy(STAND_INS[path])
        elif _has(node, last) and path[0] == "rewards" and len(path) == 2:
            node[last] = copy.deepcopy(A_REWARD)  # keeps the indexes of the others
        elif _has(node, last):
            del node[last]
    return usable


def _has(node: object, part: object) -> bool:
    if isinstance(node, list):
        return isinstance(part, int) and part < len(node)
    return isinstance(node, dict) and part in node


@once_for_a_source
def _read(source: Source) -> SectionValues | Sequence[Mapping[str, Any]]:
    return _validate(source.values)


def _validate(values: dict[str, object]) -> SectionValues | Sequence[Mapping[str, Any]]:
    """The values of all keys, or the models' errors."""
    plain = accept(values)
    if plain is not None:
        return plain
    from grpo_recipes.schemas.models import validate_recipe  # Pydantic costs more than the rest of a check

    return validate_recipe(values)


def recipe_settings(recipe: SectionValues, source: Source, refused: frozenset[Path]) -> Settings:
    """One setting for each key of the format, written or by default; open sections also give their extra keys."""
    return Settings(settings_of((), recipe, source, refused)) if refused else _whole_settings(source)


@once_for_a_source
def _whole_settings(source: Source) -> Settings:
    recipe = _read(source)
    assert isinstance(recipe, SectionValues)
    return Settings(settings_of((), recipe, source, frozenset()))


def settings_of(path: Path, section: SectionValues, source: Source, refused: frozenset[Path]) -> Iterator[Setting]:
    """One setting for each key of a section at a path of the recipe, and of the sections in it."""
    for key, value in section.items():
        if isinstance(value, SectionValues):
            yield from settings_of((*path, key), value, source, refused)
        else:
            yield setting_of((*path, key), value, source, refused)


def setting_of(path: Path, value: object, source: Source, refused: frozenset[Path]) -> Setting:
    """The setting of one key at a path of the recipe."""
    given = path in source.marks and value_at(source.values, path) is not None
    return Setting(
        key=".".join(str(part) for part in path),
        value=value,
        origin=where_written(source, path) if given else FORMAT_ORIGIN,
        path=path,
        given=given,
        refused=any(r == path[: len(r)] for r in refused),
    )


def where_written(source: Source, path: Path) -> str:
    """Where a value was written: "recipes/a.yaml:12:3", or the whole override.

    An extended list was written in several places: the first item of each in turn.
    """
    value = value_at(source.values, path)
    items = [source.marks.get((*path, index)) for index in range(len(value) if isinstance(value, list) else 0)]
    first = {mark.file: mark for mark in reversed(items) if mark is not None}
    if len(first) < 2:
        return _place(source.marks[path])
    return " + ".join(dict.fromkeys(_place(first[mark.file]) for mark in items if mark is not None))


def _place(mark: Mark) -> str:
    return f"--set {mark.line_text}" if mark.file == "--set" else str(mark)


TRL = "TRL or open-r1"
AXOLOTL = "axolotl"
# Keys that only one program has; those in a section identify it even if the section is one of recipes too.
OWN_KEYS = {
    "base_model": AXOLOTL,
    "actor_rollout_ref": "verl",
    "rlhf_type": "ms-swift",
    "finetuning_type": "LLaMA-Factory",
    "compute_environment": "accelerate",
    "training.trainer_type": "oumi",
    "model._component_": "torchtune",
    "policy.generation": "NeMo-RL",
    "actor.path": "AReaL",
    "trainer.policy": "SkyRL",
}
_NAMING = frozenset(("model_name_or_path", "dataset_name", "dataset_mixture", "reward_funcs"))
_FEWEST = 3
_SHOWN = 4


def other_programs(source: Source) -> Finding | None:
    """The single finding for another program's file, None for a recipe, even one with keys of another program."""
    own = None if "recipe" in source.values else own_key(source.values)
    is_recipe = _is_meant_as_a_recipe(source.values) and not (own and "." in own)
    program_and_keys = None if is_recipe else _program([str(key) for key in source.values], own)
    if program_and_keys is None:
        return None
    program, keys = program_and_keys
    return Finding(
        MISSING_KEY,
        "error",
        f"this is a configuration of {program}, not a recipe",
        "recipe",
        source.mark(("recipe",)),
        because=(f"it has {join_items(keys, _SHOWN)}, and none of `recipe: 1`, model, dataset, rewards and training",),
        fix=way_to_a_recipe(program, source.file),
    )


def way_to_a_recipe(program: str, file: str) -> str:
    """How to turn another program's file into a recipe."""
    from shlex import quote  # only a file of another program pays for this import

    if program in (TRL, AXOLOTL):
        return f"grpo-run init --from {quote(file)} -o recipe.yaml"
    if program == "accelerate":
        return f"grpo-run init --from CONFIG --accelerate {quote(file)}, with the configuration that it launches"
    return f"grpo-run init writes a small recipe; write the values of this file into it, {TABLE_OF_KEYS}"


def _is_meant_as_a_recipe(values: Mapping[str, object]) -> bool:
    """Whether a file claims to be a recipe, or has a section unique to the format; others share two section names."""
    own = section_keys().keys() - {"trl", "datasets"}
    return "recipe" in values or any(name in own and isinstance(value, dict | list) for name, value in values.items())


def own_key(values: Mapping[str, object]) -> str | None:
    """The key, in dots, that only one other program has; None without one."""
    return next((key for key in OWN_KEYS if value_at(values, tuple(key.split(".")), ABSENT) is not ABSENT), None)


def _program(keys: list[str], own: str | None) -> tuple[str, list[str]] | None:
    """The program, and the keys that identify it."""
    if own is not None:
        return OWN_KEYS[own], [own]
    # Keys that TRL's and open-r1's scripts read besides GRPOConfig: trl 1.16.0, ModelConfig and ScriptArguments;
    # configs.py.
    of_scripts = other_names()["script_keys"]
    flat = [key for key in keys if key in of_scripts or key in classified_fields()]
    is_enough = len(flat) >= (_FEWEST if _NAMING.isdisjoint(flat) else _FEWEST - 1)
    return (TRL, flat) if is_enough and 2 * len(flat) > len(keys) else None
