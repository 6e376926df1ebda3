"""Random GRPOConfig configurations, valid and broken, and each as a recipe."""

import random
from dataclasses import dataclass
from typing import Any

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.facts import Facts
from grpo_recipes.facts.source.field import Field

MANY = 10**5  # older releases try out every number up to a batch, so that more would take hours
STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, MANY, -MANY, 0.0, 0.5, 1.0, 1.5, -0.5, 8.0, 1e-9, 1e30),
    *(float("inf"), float("nan"), "", "x", "auto", "no", "none", "steps", "epoch", "True", "1", "1e-5", "None"),
    *([], [1], ["x"], [None], {}, {"a": 1}, {"a": {"b": [1]}}, "[1]", "{}", " ", "ü", "0.5"),
)
TEXTS = ("x", "owner/name", "cpu", "no", "steps", "epoch", "auto", "linear", "info")
LORA = {"r": 4, "target_modules": ["q_proj"]}
EXPRESSIBLE = {"loss_type": "grpo", "top_k": 50}  # what the oldest release does
UNKNOWN = ("num_generation", "learning_rat", "max_steps_", "betas", "use_vlm")
REMOVED = ("max_prompt_length", "evaluation_strategy", "no_cuda", "vllm_device", "logging_dir", "overwrite_output_dir")


@dataclass(frozen=True, slots=True)
class Configuration:
    """Fields of GRPOConfig by the newest release's names, for a number of processes; with or without an adapter."""

    processes: int
    fields: dict[str, Any]
    lora: bool = False
    model: str = "owner/model"

    def recipe(self) -> dict[str, Any]:
        """The same as a recipe: a field with a home there, any other under `trl`."""
        values: dict[str, Any] = {
            "recipe": 1,
            "name": "fuzz",
            "model": {"model_name_or_path": self.model},
            "dataset": {"path": "owner/data", "prompt": "{{ question }}"},
            "rewards": [{"name": "completion_length"}],
            "training": {},
            "launch": {"num_processes": self.processes},
        }
        if self.lora:
            values["lora"] = LORA
        for name, value in self.fields.items():
            field = classified_fields().get(name)
            section, _, key = (field.home if field is not None and field.home else f"trl.{name}").rpartition(".")
            (values.setdefault(section, {}) if section else values)[key] = value
        return values

    def raw(self, facts: Facts) -> dict[str, Any]:
        """What a script hands to the GRPOConfig of a release: every field that it has; `auto` is a word of recipes."""
        known = facts.fields("GRPOConfig") or {}
        return {name: value for name, value in self.fields.items() if name in known and value != "auto"}


def configuration(draw: random.Random, facts: Facts) -> Configuration:
    """One configuration: always a batch, and some other fields with values that fit, or that do not."""
    known = facts.fields("GRPOConfig") or {}
    processes = draw.choice([1, 1, 1, 2, 3, 4, 8])
    fields = _batch(draw, processes) | {"max_steps": 10, **EXPRESSIBLE}
    writable = [name for name in known if not _is_owned(name)]
    for name in draw.sample(writable, draw.choice([0, 1, 1, 1, 2, 2, 3, 4, 5])):
        fields[name] = _value(draw, known[name])
    chance = draw.random()
    if chance < 0.04:
        owned = draw.choice([name for name in known if _is_owned(name)])
        fields[owned] = _value(draw, known[owned])
    elif chance < 0.06:
        fields[draw.choice(UNKNOWN + REMOVED)] = draw.choice(STRANGE)
    return Configuration(processes, fields)


REACHES_OUT = ("push_to_hub", "report_to", "log_completions_hub_repo")


def with_conditions(draw: random.Random, facts: Facts, model: str) -> Configuration:
    """One configuration around a field that matters only under conditions, half of which are not met."""
    known = facts.fields("GRPOConfig") or {}
    conditional = [
        name for name, field in classified_fields().items() if field.when and name in known and not field.owner
    ]
    fields = _fitting_batch(draw, 1) | {"max_steps": 10, **EXPRESSIBLE}
    for name in draw.sample(conditional, draw.choice([1, 1, 2])):
        for other, operator, operand in classified_fields()[name].when:
            if other in known and other not in (name, *REACHES_OUT, *fields) and draw.random() < 0.7:
                fields[other] = _condition(draw, known[other], operator, operand)
        fields[name] = _fitting(draw, known[name])
    return Configuration(1, fields, lora=draw.random() < 0.5, model=model)


def _condition(draw: random.Random, field: Field, operator: str, operand: Any) -> Any:
    """A value of the field that a condition is on, one that meets it or another one."""
    if draw.random() < 0.4:
        return _fitting(draw, field)
    operand = draw.choice(operand) if isinstance(operand, list) and operand else operand
    return 0.04 if operator == ">" else operand if operator == "==" else _fitting(draw, field)


def _is_owned(name: str) -> bool:
    field = classified_fields().get(name)
    return field is None or field.owner is not None


def _batch(draw: random.Random, processes: int) -> dict[str, Any]:
    """The fields that the batches follow from; two thirds of them fit together."""
    if draw.random() < 0.66:
        return _fitting_batch(draw, processes)
    fields = {
        "num_generations": draw.choice([2, 4, 8, 3, 1, 0]),
        "per_device_train_batch_size": draw.choice([1, 2, 3, 4, 8, 0]),
        "gradient_accumulation_steps": draw.choice([1, 2, 4, 3, 0]),
    }
    if draw.random() < 0.4:
        fields["steps_per_generation"] = draw.choice([1, 2, 4, 3, 0, -2])
    if draw.random() < 0.4:
        fields["generation_batch_size"] = draw.choice([1, 2, 4, 8, 16, 24, 32, 64, 7, 0, -8])
    return fields


def _fitting_batch(draw: random.Random, processes: int) -> dict[str, Any]:
    """Whole prompt groups in every generation; half of the time also in every micro-batch."""
    generations, per_device, steps = draw.choice([2, 4, 8, 3, 6, 16]), draw.choice([1, 2, 4, 8]), draw.choice([1, 2, 4])
    if draw.random() < 0.5:
        per_device = generations * draw.choice([1, 2])
    while per_device * processes * steps % generations:
        steps += 1
    fields = {
        "num_generations": generations,
        "per_device_train_batch_size": per_device,
        "gradient_accumulation_steps": steps,
    }
    match draw.choice(["neither", "neither", "steps", "size"]):
        case "steps":
            fields["steps_per_generation"] = steps * draw.choice([1, 1, 2])
        case "size":
            fields["generation_batch_size"] = per_device * processes * steps * draw.choice([1, 2])
    return fields


def _value(draw: random.Random, field: Field) -> Any:
    return draw.choice(STRANGE) if draw.random() < 0.25 else _fitting(draw, field)


def _fitting(draw: random.Random, field: Field) -> Any:
    """A value of the declared type, near the default where there is one."""
    if field.allowed is not None and draw.random() < 0.8:
        return draw.choice(field.allowed)
    if type(field.default) in (bool, int, float, str) and draw.random() < 0.3:
        return field.default
    kinds = [kind for kind in ("bool", "int", "float", "str", "list", "dict") if kind in field.annotation]
    match draw.choice(kinds or ["str"]):
        case "bool":
            return draw.random() < 0.5
        case "int":
            return draw.choice([1, 2, 3, 5, 10, 50, 512])
        case "float":
            return draw.choice([0.1, 0.25, 0.5, 0.9, 1.0, 1.5, 2.0, 1e-6])
        case "list":
            return draw.choice([[], ["x"], [1.0], ["q_proj", "v_proj"]])
        case "dict":
            return draw.choice([{}, {"a": 1}, {"use_reentrant": False}, {"min_lr": 1e-7}])
    return draw.choice(TEXTS)
