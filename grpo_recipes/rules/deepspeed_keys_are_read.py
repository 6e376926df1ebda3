"""DeepSpeed reads every key under distributed.deepspeed, and no key repeats a key of the recipe.

DeepSpeed silently ignores an unknown key at the top of its file: `zero_optimisation` trains without ZeRO. An unknown
key inside `zero_optimization` raises when training starts, after loading the model. Batch sizes, precision, stage,
optimizer and schedule have their own keys in the recipe. A second value would disagree with the trainer's: DeepSpeed
then either raises at the same late moment or silently uses the second value. A stage, an offload or a clipping norm
that equals the recipe's is accepted, as transformers does.
"""

from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding, Patch, Path, value_at
from grpo_recipes.contract.findings.wording import flow, nearest_words
from grpo_recipes.facts.deepspeed_keys import DeepSpeedKeys, deepspeed_keys
from grpo_recipes.rules._shared.context import Context

ID = "DSP001"
KEY = "distributed.deepspeed"
HOME: Path = ("distributed", "deepspeed")
CUTOFF = 0.7
SAME_VALUES = (
    "training.bf16",
    "training.fp16",
    "training.max_grad_norm",
    "training.per_device_train_batch_size",
    "distributed.offload_optimizer_device",
    "distributed.offload_param_device",
)
# A micro-batch may be halved later, and the precision may be torch's autocast.
MAY_BE_REPEATED = (
    "training.max_grad_norm",
    "distributed.strategy",
    "distributed.offload_optimizer_device",
    "distributed.offload_param_device",
)


def check(context: Context) -> Iterator[Finding]:
    keys = context.mapping(KEY)
    if keys:
        yield from _walk(context, keys, (), deepspeed_keys())


def _walk(
    context: Context, keys: Mapping[str, object], above: tuple[str, ...], known: DeepSpeedKeys
) -> Iterator[Finding]:
    section = ".".join(above)
    accepted = known.sections.get(section) if section else known.read
    for key, value in keys.items():
        path = (*above, key)
        name = ".".join(path)
        if name in known.owned:
            if not _is_repeated(context, path, known.owned[name], value):
                yield _has_own_key(context, path, known.owned[name])
        elif not section and key in known.removed:
            yield _no_longer_read(context, path, known.release)
        elif accepted is not None and key not in accepted:
            yield _no_such_key(context, path, value, accepted, known)
        elif isinstance(value, dict):
            yield from _walk(context, value, path, known)
        elif name in known.sections or f"{name}.enabled" in known.owned:
            yield _no_map(context, path, known.owned.get(f"{name}.enabled"))


def _finding(
    context: Context, path: tuple[str, ...], message: str, because: str, fix: str, patch: list[Patch]
) -> Finding:
    # A different release may have had the key, or have it by now.
    same = context.stack.version("deepspeed") == deepspeed_keys().release
    return context.finding(
        message,
        KEY,
        because,
        fix=fix,
        patch=patch,
        severity="error" if same or ".".join(path) in deepspeed_keys().owned else "warning",
    )


def _is_repeated(context: Context, path: tuple[str, ...], home: str, value: object) -> bool:
    """Whether the value equals that of the recipe's key, and always will."""
    if home not in MAY_BE_REPEATED or isinstance(value, bool):
        return False
    key = "GRPOConfig.max_grad_norm" if home == "training.max_grad_norm" else home
    return _in_the_recipe(path, home, value) == context.value(key)


def _has_own_key(context: Context, path: tuple[str, ...], home: str) -> Finding:
    name = ".".join(path)
    because = f"grpo-run writes {name} from {home}; the trainer refuses a second value or silently follows it"
    value, home_path = value_at(context.mapping(KEY), path), tuple(home.split("."))
    written, here = value_at(context.source.values, home_path), _in_the_recipe(path, home, value)
    if value == "auto" or (here is not None and written == here):
        fix, patch = f"remove {name}", _without(path)
    elif here is None or written not in (None, "auto"):
        fix, patch = f"write {home}", []
    else:
        fix, patch = f"write {home}: {flow(here)}", [*_without(path), Patch(home_path, here)]
    return _finding(context, path, f"{name} is set by {home}", because, fix, patch)


def _in_the_recipe(path: tuple[str, ...], home: str, value: object) -> object:
    """The value of the recipe's key that means the same, None if it counts something else."""
    if path[-1] == "stage":
        return f"zero{value}" if value in (1, 2, 3) else None
    return value if home in SAME_VALUES and not isinstance(value, dict) else None


def _no_longer_read(context: Context, path: tuple[str, ...], release: str) -> Finding:
    name = ".".join(path)
    because = f"deepspeed {release} no longer has this feature, and raises DeepSpeedConfigError"
    return _finding(context, path, f"DeepSpeed no longer has {name}", because, f"remove {name}", _without(path))


def _no_such_key(
    context: Context, path: tuple[str, ...], value: object, accepted: frozenset[str], known: DeepSpeedKeys
) -> Finding:
    name, above = ".".join(path), path[:-1]
    because = "DeepSpeed raises ValidationError when training starts" if above else "DeepSpeed silently ignores it"
    near = nearest_words(path[-1], sorted(accepted), cutoff=CUTOFF)
    inner = value_at(context.mapping(KEY), above)
    free = [word for word in near if ".".join((*above, word)) not in known.owned and word not in inner]
    patch = _without(path) + [Patch((*HOME, *above, word), value) for word in free]
    fix = f"{'.'.join((*above, near[0]))}: ..." if near else f"remove {name}"
    return _finding(context, path, f"DeepSpeed reads no key {name}", because, fix, patch)


def _no_map(context: Context, path: tuple[str, ...], home: str | None) -> Finding:
    name = ".".join(path)
    because = "DeepSpeed reads keys from it"
    finding = _finding(context, path, f"{name} must be a map of keys", because, f"remove {name}", _without(path))
    meant = _has_own_key(context, path, home) if home is not None else finding
    return finding._replace(fix=meant.fix, patch=meant.patch)


def _without(path: tuple[str, ...]) -> list[Patch]:
    return [Patch((*HOME, *path), remove=True)]
