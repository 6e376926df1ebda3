"""What must hold of a recipe on every release: what is passed exists there, and no value is lost on the way."""

from typing import Any

from random_recipes import Values

from grpo_recipes.contract.plan import Plan, PlannedSetting
from grpo_recipes.facts.facts import Facts
from grpo_recipes.resolve.resolve import Resolution, plan_of
from grpo_recipes.rules._shared.plain_values import PLAIN


def _is_of_type(value: object, annotation: str) -> bool:
    """Whether a plain annotation takes the value; a richer one is left to the library."""
    kinds = [part.strip().partition("[")[0] for part in annotation.split("|")]
    if value is None:
        return "None" in kinds or "Optional" in annotation
    plain = [PLAIN[kind] for kind in kinds if kind in PLAIN]
    if any(kind not in PLAIN and kind != "None" for kind in kinds):
        return True
    return any(isinstance(value, kind) and (bool in kind or not isinstance(value, bool)) for kind in plain)


def strange_arguments(plan: Plan, facts: Facts) -> list[str]:
    """The GRPOConfig arguments that the release does not have, or not with this type or word."""
    fields = facts.fields("GRPOConfig")
    assert fields is not None
    passed = plan.arguments.GRPOConfig
    missing = [name for name in passed if name not in fields]
    known = {name: (value, fields[name]) for name, value in passed.items() if name in fields}
    mistyped = [
        f"{name} {value!r} for {field.annotation}"
        for name, (value, field) in known.items()
        if not _is_of_type(value, field.annotation) or (field.allowed and value not in field.allowed)
    ]
    return missing + mistyped


def lost_values(values: Values, plan: Plan) -> list[str]:
    """The written values that do not reach the objects which take them, and are not said to be done without."""
    rows = {row.recipe_key: row for row in plan.settings}
    lost = []
    for section, keys in values.items():
        for key, value in keys.items() if isinstance(keys, dict) else ():
            row = rows.get(f"{section}.{key}")
            if value in (None, {}, "auto") or (section, key) in KEPT_ELSEWHERE:
                continue
            if row is None or row.value != value or not _is_carried(row, plan):
                lost.append(f"{section}.{key}: {value} -> {row}")
    return lost


# Of the run as a whole, and looked at by _has_the_batch.
KEPT_ELSEWHERE = {("training", "max_steps"), ("training", "num_train_epochs"), ("training", "prompts_per_step")}


def _is_carried(row: PlannedSetting, plan: Plan) -> bool:
    owner, _, name = row.key.partition(".")
    taken: dict[str, Any] = {
        "GRPOConfig": plan.arguments.GRPOConfig,
        "LoraConfig": plan.arguments.LoraConfig,
        "BitsAndBytesConfig": plan.arguments.BitsAndBytesConfig,
        "model_init_kwargs": plan.arguments.model_init_kwargs,
    }
    if owner not in taken:
        return True
    if "not passed:" in row.why:
        return name not in taken[owner]
    if "passed as " in row.why:
        passed = row.why.split("passed as ")[1].split()[0]
        return passed in {**taken["GRPOConfig"], **taken["model_init_kwargs"]}
    name = "torch_dtype" if name == "dtype" and "torch_dtype" in taken[owner] else name
    return bool(taken[owner].get(name) == row.value)


def has_the_batch(values: Values, plan: Plan) -> bool:
    """Whether TRL makes the recipe's batch of the arguments, and generates for as many steps as it says."""
    passed, generations = plan.arguments.GRPOConfig, values["grpo"].get("num_generations", 8)
    row = next(row for row in plan.settings if row.key == "GRPOConfig.per_device_train_batch_size")
    prompts = "trl 0.14 counts prompts" in row.why
    size = int(str(passed["per_device_train_batch_size"])) * (generations if prompts else 1)
    accumulation = int(str(passed["gradient_accumulation_steps"]))
    completions = size * accumulation * plan.world.num_processes
    feeds = int(str(passed.get("steps_per_generation", accumulation))) // accumulation
    wanted = values["training"]["prompts_per_step"] * generations
    return bool(completions == wanted and feeds == values["grpo"].get("optimizer_steps_per_generation", 1))


def judged(values: Values, resolution: Resolution) -> bool:
    """Asserts what must hold of a recipe on a release; gives whether the release can express it."""
    assert resolution.context is not None
    if resolution.refused:
        assert all(f.key or f.rule.startswith("STK") for f in resolution.findings if f.severity == "error")
        return False
    plan = plan_of(resolution)
    assert strange_arguments(plan, resolution.context.facts) == []
    assert lost_values(values, plan) == []
    assert has_the_batch(values, plan)
    return True
