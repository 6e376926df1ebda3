"""Reads a DeepSpeed file: stage and offload have keys, batch sizes and precision follow from the recipe, the rest
stays.
"""

from collections.abc import Mapping
from typing import Any

from grpo_recipes.facts.accepted_keys import deepspeed_keys
from grpo_recipes.takeover.basis.context import Situation
from grpo_recipes.takeover.basis.draft import Given
from grpo_recipes.takeover.basis.read import read_mapping

STRATEGY = "distributed.strategy"
EXTRA = "distributed.deepspeed"
AUTO = "auto"
# Written by grpo-run as "auto": the trainer fills in its own value.
OURS = {
    "train_batch_size": "training.prompts_per_step",
    "train_micro_batch_size_per_gpu": "training.per_device_train_batch_size",
    "gradient_accumulation_steps": "training.prompts_per_step",
    "gradient_clipping": "training.max_grad_norm",
    "bf16.enabled": "training.bf16",
    "fp16.enabled": "training.fp16",
}
TUNED = "zero_optimization"


def take_deepspeed(situation: Situation, path: str) -> None:
    """Takes over all keys of a DeepSpeed file. Raises Refusal if it cannot be read."""
    flat = dict(_flat(read_mapping(path, situation.draft, "deepspeed: ")))
    given = Given(flat, situation.draft, {name: f"deepspeed: {name}" for name in flat})
    take_stage(given, f"{TUNED}.stage")
    for part in ("offload_optimizer", "offload_param"):
        take_offload(given, f"{TUNED}.{part}.device", part)
        pinned = f"{TUNED}.{part}.pin_memory"
        if pinned in given:
            given.emulated(pinned, None, None, "memory is pinned if there is a GPU")
    for name in list(given.values):
        _key(situation, given, name)


def _flat(block: Mapping[str, object], above: str = "") -> list[tuple[str, object]]:
    """The values by keys in dots."""
    found: list[tuple[str, object]] = []
    for key, value in block.items():
        name = f"{above}{key}"
        found.extend(_flat(value, f"{name}.") if isinstance(value, Mapping) and value else [(name, value)])
    return found


def take_stage(given: Given, name: str) -> None:
    """Takes over the ZeRO stage; stage 0 shards nothing."""
    stage: Any = given.values.get(name)
    if stage in (1, 2, 3):
        given.mapped(name, STRATEGY, f"zero{int(stage)}")
    elif stage == 0:
        given.emulated(name, STRATEGY, "ddp", "stage 0 shards nothing")
    elif name in given:
        given.refused(name, "the stages are 1 to 3", STRATEGY)


def take_offload(given: Given, name: str, part: str) -> None:
    """Takes over where a part of the states is offloaded to."""
    if given.values.get(name) in ("cpu", "nvme"):
        given.mapped(name, f"distributed.{part}_device", given.values[name])
    elif name in given:
        given.mapped(name, None)


def _key(situation: Situation, given: Given, name: str) -> None:
    value = given.values[name]
    top = name.partition(".")[0]
    owned = deepspeed_keys().owned.get(name) or deepspeed_keys().owned.get(top) or OURS.get(name)
    if value == AUTO:
        given.mapped(name, None, because="grpo-run and the trainer fill it in")
    elif top in ("bf16", "fp16", "amp", "bfloat16"):
        _precision(situation, given, name)
    elif top in ("optimizer", "scheduler"):
        reason = "the recipe sets the optimizer: training.optim, learning_rate, weight_decay, adam_*"
        given.refused(name, reason if top == "optimizer" else "training.lr_scheduler_type sets the schedule", EXTRA)
    elif owned:
        given.emulated(name, None, None, f"{owned} sets it")
    elif not _is_read(name):
        given.refused(name, f"DeepSpeed {deepspeed_keys().release} does not read it", EXTRA)
    else:
        given.mapped(name, f"{EXTRA}.{name}", value)


def _precision(situation: Situation, given: Given, name: str) -> None:
    top, _, last = name.partition(".")
    if last != "enabled":
        given.mapped(name, f"{EXTRA}.{name}", given.values[name]) if _is_read(name) else given.refused(
            name, "no recipe key has this meaning", EXTRA
        )
    elif bool(given.values[name]) == bool(situation.value(top)):
        given.mapped(name, None, because=f"training.{top} sets it")
    else:
        given.refused(name, f"the trainer refuses any value but training.{top}", f"training.{top}")


def _is_read(name: str) -> bool:
    """Whether DeepSpeed reads a key; keys inside an open section are accepted as they are."""
    known = deepspeed_keys()
    parts = name.split(".")
    if parts[0] not in known.read:
        return False
    for depth in range(1, len(parts)):
        section = known.sections.get(".".join(parts[:depth]))
        if section is not None and parts[depth] not in section:
            return False
    return True
