"""What the release did where a configuration says nothing, written out where format 1 would do something else."""

from collections.abc import Iterable, Mapping

from grpo_recipes.facts.classified import ClassifiedField, classified_fields, matters
from grpo_recipes.facts.released.shipped import releases_with_facts
from grpo_recipes.facts.source.field import NoDefault
from grpo_recipes.takeover.basis.release import Release, default_of, release_of
from grpo_recipes.takeover.basis.situation import Situation, format_value
from grpo_recipes.takeover.sections.model import mixes_experts

# The batch is written from all its parts at once.
BATCH = frozenset({"per_device_train_batch_size", "gradient_accumulation_steps", "generation_batch_size"})
BATCH |= {"steps_per_generation"}
MOVED = ("beta", "loss_type", "scale_rewards", "temperature", "max_completion_length", "use_bias_correction_kl")
# A dense model has no such loss in any release; trl from 1.14 on raises for one that asks for it.
ROUTER_LOSS = "router_aux_loss_coef"


def write_defaults(situation: Situation) -> None:
    """Writes every value of the release that is part of the experiment, or has a home, and is not format 1's."""
    draft, release = situation.draft, situation.release
    values = known_values(situation)
    for name, field in classified_fields().items():
        where = field.home or f"trl.{name}"
        if not _is_pinned(field) or name in BATCH or where in draft.values:
            continue
        if field.kind != "experiment" and name not in release.fields and not matters(field, values):
            continue
        default = default_of(field, release, values)
        if isinstance(default, NoDefault) or _is_same(default, _format(field)):
            continue
        values[name] = default
        if name == ROUTER_LOSS and not mixes_experts(situation):
            continue
        if matters(field, values):
            draft.put(where, default, f"what trl {release.trl} does where nothing is said")


def _is_pinned(field: ClassifiedField) -> bool:
    return field.kind == "experiment" if field.has_value else bool(field.home) and field.kind != "bookkeeping"


def _format(field: ClassifiedField) -> object:
    return format_value(field.home) if field.home else field.value


def known_values(situation: Situation) -> dict[str, object]:
    """GRPOConfig values by name: of the recipe so far, else of the release, else of the format."""
    draft, release = situation.draft, situation.release
    rewards = draft.values.get("rewards")
    values: dict[str, object] = {"rewards": len(rewards) if isinstance(rewards, list) else 1}
    values["processes"] = situation.processes
    for name, field in classified_fields().items():
        where = field.home or f"trl.{name}"
        if where in draft.values:
            values[name] = draft.values[where]
        elif field.home or field.has_value:
            values[name] = _format(field)
    for name in ("use_vllm", "beta", "loss_type", "fp16"):
        field = classified_fields()[name]
        if field.home not in draft.values:
            values[name] = default_of(field, release, values)
    return values


def _is_same(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def disagreements(names: Iterable[str], written: Mapping[str, object], release: Release) -> dict[str, str]:
    """Defaults of the experiment that the releases which take these keys disagree on: field -> each value, since when.

    written: the recipe's values. Only what the configuration does not say counts.
    """
    asked = set(names)
    said: dict[str, list[tuple[str, object]]] = {}
    for version in releases_with_facts("trl"):
        other = release_of(version, release)
        if other is None or not {name for name in asked if name in release.fields} <= set(other.fields):
            continue
        for name in MOVED:
            if name in asked:
                continue
            field = classified_fields()[name]
            start = {one: _format(classified_fields()[one]) for one in ("use_vllm", "beta", "loss_type", name)}
            value = default_of(field, other, start)
            spans = said.setdefault(name, [])
            if not spans or not _is_same(spans[-1][1], value):
                spans.append((version, value))
    return {name: _spans_text(spans) for name, spans in said.items() if len(spans) > 1}


def _spans_text(spans: list[tuple[str, object]]) -> str:
    return ", ".join(f"{value} from {version}" for version, value in spans)
