"""Finds the differences between two plans: the experiment, the machine, and arguments with the same meaning.

The settings of a plan have the recipe's values in the recipe's terms, however its release spells them or whether it
does them by default; so a difference in them is one of the experiment, and a difference only in the arguments is not.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from grpo_recipes.compare.contents import contents
from grpo_recipes.compare.experiment_groups import group_of, groups
from grpo_recipes.contract.plan import Plan, PlannedSetting
from grpo_recipes.contract.plan_sections import Forebear, lineage
from grpo_recipes.facts.classified import classified_fields, fields_by_home
from grpo_recipes.stack.stack import Stack, from_json_value

# Values with two spellings in one release.
SPELLINGS: Mapping[str, Mapping[bool, str]] = {"grpo.scale_rewards": {True: "group", False: "none"}}
# Covered by plan.data, plan.rewards, plan.tools, plan.model and plan.tokenizer, with the digests of files instead of
# their paths.
BY_CONTENT = (
    "dataset.",
    "datasets",
    "rewards",
    "tools",
    "environment.",
    "environments.",
    "rollout.",
    "model.from_run",
    "model.model_name_or_path",
    "model.model_revision",
    "tokenizer.chat_template_path",
)
# Follow from training.prompts_per_step and the machine, unless the recipe sets them; see effective_batch.
GEOMETRY = ("GRPOConfig.steps_per_generation", "GRPOConfig.generation_batch_size")


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs; None on the side that lacks it.

    why: the reasons of either side. group: of the experiment, one of groups(); "" for everything else.
    """

    key: str
    a: object
    b: object
    why: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The earlier runs of both sides."""

    a: tuple[Forebear, ...] = ()
    b: tuple[Forebear, ...] = ()


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences between two plans. experiment: by group, empty if both plans are the same experiment. machine:
    packages, GPUs, geometry and shims.

    passed: arguments that express the same values differently, or that only one side passes. lineage: the earlier runs
    of each side, nearest first.
    """

    experiment: tuple[Difference, ...]
    machine: tuple[Difference, ...]
    passed: tuple[Difference, ...]
    bookkeeping: tuple[Difference, ...]
    lineage: Lineage = Lineage()


def differences(a: Plan, b: Plan) -> Differences:
    """Everything that differs between two plans: the experiment by group, the rest in the settings' order."""
    experiment = _experiment(a, b)
    machine = _different(_machine(a), _machine(b), _reasons(a, b))
    reported = {difference.key for difference in (*experiment, *machine)}
    return Differences(
        experiment=experiment,
        machine=machine,
        passed=_different(_other_arguments(a, reported), _other_arguments(b, reported), _reasons(a, b)),
        bookkeeping=_different(_rows(a, _is_bookkeeping), _rows(b, _is_bookkeeping)),
        lineage=Lineage(lineage(a.ancestor, a.extends), lineage(b.ancestor, b.extends)),
    )


def _experiment(a: Plan, b: Plan) -> tuple[Difference, ...]:
    ours, theirs = contents(a, b)
    rows = _different({**_values(a), **ours}, {**_values(b), **theirs})
    experiment = [replace(row, group=group_of(row.key)) for row in rows if not _follows(row)]
    batch = _different(effective_batch(a), effective_batch(b))
    experiment += [replace(row, group="effective batch") for row in batch]
    return tuple(sorted(experiment, key=lambda row: groups().index(row.group)))


def _different(
    a: Mapping[str, object], b: Mapping[str, object], reasons: Mapping[str, str] | None = None
) -> tuple[Difference, ...]:
    keys = [key for key in dict.fromkeys([*a, *b]) if a.get(key) != b.get(key)]
    return tuple(Difference(key, a.get(key), b.get(key), (reasons or {}).get(key, "")) for key in keys)


def _reasons(a: Plan, b: Plan) -> dict[str, str]:
    """The reasons of values, by both of their keys; if both sides give one, the second."""
    rows = [row for plan in (a, b) for row in plan.settings if row.why]
    return {key: row.why for row in rows for key in (row.key, row.recipe_key) if key}


def _follows(difference: Difference) -> bool:
    """Whether only one side has a value, because a different value that also differs makes it matter there."""
    name = difference.key.removeprefix("trl.")
    field = fields_by_home().get(difference.key) or classified_fields().get(name)
    conditions = () if field is None else field.when
    return None in (difference.a, difference.b) and any(other != (field and field.name) for other, _, _ in conditions)


def _values(plan: Plan) -> dict[str, object]:
    rows = _rows(plan, _is_experiment)
    return {key: _plain(key, value) for key, value in rows.items() if key not in SAID_BY}


def _plain(key: str, value: object) -> object:
    """A value in the format's spelling."""
    return SPELLINGS.get(key, {}).get(value, value) if isinstance(value, bool) else value


def _rows(plan: Plan, chosen: Callable[[PlannedSetting], bool]) -> dict[str, object]:
    """The values of settings by the user's key, else by their own."""
    return {row.recipe_key or row.key: row.value for row in plan.settings if chosen(row)}


def _is_experiment(row: PlannedSetting) -> bool:
    if row.kind != "experiment" or (row.recipe_key or row.key).startswith(BY_CONTENT) or _is_geometry(row):
        return False
    owner, _, name = row.key.partition(".")
    field = classified_fields().get(name) if owner == "GRPOConfig" else None
    return bool(row.recipe_key) or field is None or not field.owner


def _is_bookkeeping(row: PlannedSetting) -> bool:
    return row.kind == "bookkeeping"


def _is_geometry(row: PlannedSetting) -> bool:
    return row.key in GEOMETRY and not row.recipe_key


def _machine(plan: Plan) -> dict[str, object]:
    """Packages, GPUs, geometry, shims, and the accepted rules."""
    stack = from_json_value(plan.stack)
    packages = {name: version for name, version in stack.packages.items() if version is not None}
    gpus = {} if stack.gpus is None else {"gpus": _gpus_text(stack)}
    rows = _rows(plan, lambda row: row.key != "world.gpus" and (row.kind == "machine" or _is_geometry(row)))
    accepted = {"accepted rules": list(plan.accepted)} if plan.accepted else {}
    return {**packages, **gpus, **rows, **accepted}


def _gpus_text(stack: Stack) -> str:
    counted = Counter(gpu.name for gpu in stack.gpus or ())
    return " + ".join(f"{number} x {name}" for name, number in counted.items()) or "none"


def _other_arguments(plan: Plan, reported: Collection[str]) -> dict[str, object]:
    """The passed arguments, without bookkeeping and values that were reported under their recipe key."""
    recipe_keys = {*reported, *SAID_BY}
    left_out = {row.key for row in plan.settings if (row.recipe_key or row.key) in recipe_keys}
    left_out |= {f"GRPOConfig.{f.name}" for f in classified_fields().values() if f.kind == "bookkeeping"}
    return {key: value for key, value in _arguments(plan) if key not in left_out}


def _arguments(plan: Plan) -> Iterable[tuple[str, object]]:
    for owner, values in dataclasses.asdict(plan.arguments).items():
        if isinstance(values, dict):
            yield from ((f"{owner}.{name}", value) for name, value in values.items())


# Reported here instead of one by one.
SAID_BY = (
    "training.prompts_per_step",
    "grpo.num_generations",
    "grpo.optimizer_steps_per_generation",
    "trl.steps_per_generation",
    "trl.generation_batch_size",
    "GRPOConfig.steps_per_generation",
    "GRPOConfig.generation_batch_size",
)


def effective_batch(plan: Plan) -> dict[str, object]:
    """Prompts and completions per optimizer step over all processes, and the steps per generation.

    Fractions of a prompt group, which TRL's own fields allow, are decimal numbers.
    """
    batch = plan.batch
    steps = batch.steps_per_generation / batch.accumulation
    prompts = batch.prompts / steps
    return {
        "prompts per optimizer step": _whole(prompts),
        "completions per optimizer step": _whole(prompts * batch.num_generations),
        "completions per prompt": batch.num_generations,
        "optimizer steps per generation": _whole(steps),
    }


def _whole(value: float) -> int | float:
    return int(value) if value.is_integer() else round(value, 6)
