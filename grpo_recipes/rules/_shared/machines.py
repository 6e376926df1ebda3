"""The machines of a run, and the packages that it uses on them, for rules."""

from collections.abc import Iterator, Mapping, Sequence

from grpo_recipes.contract.host.engines import ENGINES
from grpo_recipes.contract.tasks import PACKAGE
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context, NotJudged
from grpo_recipes.rules._shared.loaded_model import MODEL, is_quantized, model_config, sees
from grpo_recipes.rules._shared.training_rows import makes_rows
from grpo_recipes.rules._shared.vllms_gpu import starts_server
from grpo_recipes.stack.gpus import sizes_in_gb
from grpo_recipes.stack.stack import Gpu, Stack

ENGINE, NODES = "launch.engine", "launch.num_nodes"


def is_slurm(context: Context) -> bool:
    """Whether Slurm assigns the machines."""
    setting = context.settings.get(ENGINE)
    return setting is not None and not setting.refused and setting.value == "slurm"


def is_of_a_cluster(context: Context) -> bool:
    """Whether the machines that train are not this one, as Slurm's."""
    setting = context.settings.get(ENGINE)
    kind = None if setting is None or setting.refused else ENGINES.get(str(setting.value))
    return kind is not None and kind.trains_elsewhere


def machines(context: Context) -> int:
    """The number of machines of the run, 1 if the number was refused."""
    setting = context.settings.get(NODES)
    return setting.value if setting is not None and not setting.refused and isinstance(setting.value, int) else 1


def has_server_node(context: Context) -> bool:
    """Whether the run's vLLM server has its own machine: the last of several."""
    return machines(context) > 1 and starts_server(context)


GIB = 2**30
UNKNOWN_GPUS = "the target names no GPU of known capability; write gpus=4xH100-80GB in --target"


def gpus_in_use(context: Context) -> tuple[Gpu, ...] | None:
    """The GPUs of each machine that are used; None if unknown.

    If a machine has more, these are the ones with the highest capability, then the most memory: CUDA numbers the
    fastest first, and a process takes the first. An unknown GPU may be any of them.
    """
    gpus, used = context.stack.gpus, context.value("world.all_gpus")
    if gpus is None or not isinstance(used, int) or used >= len(gpus):
        return gpus
    return tuple(
        sorted(gpus, key=lambda gpu: (gpu.capability is None, gpu.capability or (), gpu.memory_gib or 0))[-used:]
    )


def smallest_gpu(context: Context) -> float | None:
    """GiB of the smallest GPU that is used, None if any is unknown."""
    known = [gpu.memory_gib for gpu in gpus_in_use(context) or ()]
    sizes = [size for size in known if size is not None]
    return min(sizes) if sizes and len(sizes) == len(known) else None


def gpu_bytes(context: Context) -> int | None:
    """Bytes of the smallest GPU; None if any is unknown, and for a run on the CPU."""
    gib = None if context.value("world.device") == "cpu" else smallest_gpu(context)
    return None if gib is None else round(gib * GIB)


def size_assumptions(context: Context) -> tuple[str, ...]:
    """The assumption for GPUs whose name does not say which of several sizes they have."""
    names = {gpu.name: sizes_in_gb(gpu.name) for gpu in gpus_in_use(context) or ()}
    return tuple(
        f"{name} has {sizes[0]} GB, not {' or '.join(map(str, sizes[1:]))}; otherwise write gpus=1x{name}:{sizes[-1]}GB"
        for name, sizes in names.items()
        if sizes
    )


ALWAYS = ("torch", "transformers", "trl", "accelerate", "datasets")
OPTIONAL = frozenset({"bitsandbytes", "deepspeed", "liger-kernel", "math-verify", "peft", PACKAGE, "vllm"})
"""Packages of a stack that a recipe may not need."""

_LOADED_WITH = "AutoProcessor cannot load the model's processor without it"
WITH_MATH_VERIFY = tuple(
    f"trl.rewards:{name}" for name in ("accuracy_reward", "reasoning_accuracy_reward", "get_cosine_scaled_reward")
)


def command_for(stack: Stack, packages: Sequence[str], extra: str = "") -> str:
    """The command that installs packages, or the extra that has them, on this machine; words for a declared one.

    Next to an installed TRL, only the packages: the releases of the extra would replace those that are there.
    """
    from grpo_recipes.contract.host.installing import install_command, install_there  # only for a mistake

    is_alone = extra == "train" and bool(stack.version("trl"))
    if stack.declared:
        return install_there(packages, "" if is_alone else extra)
    return install_command(packages, extra, is_alone=is_alone)


def package_of(optim: str) -> str | None:
    """The package that an optimizer needs in addition to torch, None without one."""
    packages: Mapping[str, str] = table("trainer_words")["optimizer_packages"]
    fitting = [start for start in packages if optim.startswith(start)]
    return packages[max(fitting, key=len)] if fitting else None


def packages_needed(context: Context) -> Iterator[tuple[str, str, str, str]]:
    """package, key that asks for it, why, our extra that installs it; without vLLM and the optimizers' packages."""
    for package in ALWAYS:
        yield package, "recipe", "every run needs it", "train"
    if context.has_section("lora"):
        yield "peft", "lora", "`lora` needs it", "train"
    if is_quantized(context):
        yield "bitsandbytes", "quantization", "`quantization` needs it", "quantization"
    if str(context.value("distributed.strategy")).startswith("zero"):
        yield "deepspeed", "distributed.strategy", "the ZeRO strategies need it", "deepspeed"
    rewards = context.items("rewards")
    for reward in rewards:
        if reward.get("name") == "accuracy" or reward.get("python") in WITH_MATH_VERIFY:
            name = str(reward.get("name") or reward["python"])
            yield "math-verify", "rewards", f"the reward {name} compares with it", "train"
            break
    is_scored = any(reward.get("name") == "reasoning_gym" for reward in rewards)
    if is_scored or makes_rows(context):
        key = "rewards" if is_scored else "dataset"
        yield PACKAGE, key, "its tasks generate the rows and score the answers", PACKAGE
    yield from _of_the_processor(context)
    if context.value("GRPOConfig.use_liger_kernel") is True:
        yield "liger-kernel", "GRPOConfig.use_liger_kernel", "use_liger_kernel uses its kernels", ""


def _of_the_processor(context: Context) -> Iterator[tuple[str, str, str, str]]:
    """Packages that AutoProcessor imports for a vision model, also for rows of text."""
    config, transformers = model_config(context), context.stack.version("transformers")
    if config is None or not sees(config):
        return
    yield "pillow", MODEL, "AutoProcessor cannot load the model's processor without it, even for rows of text", ""
    if (
        config.get("model_type") in table("vision_models")["torchvision"]
        and transformers is not None
        and is_within(transformers, ">=5")
    ):
        yield "torchvision", MODEL, _LOADED_WITH, ""
    if config.get("model_type") == "smolvlm":
        yield "num2words", MODEL, _LOADED_WITH, ""


def packages_not_needed(context: Context) -> frozenset[str]:
    """The packages that may be in the stack and that this recipe does not need.

    All of them if a deciding value was refused, since its needs are then unknown.
    """
    try:
        used = {package for package, *_ in packages_needed(context)}
        if context.value("GRPOConfig.use_vllm") is True:
            used.add("vllm")
        return OPTIONAL - used - {package_of(context.text("GRPOConfig.optim"))}
    except NotJudged:
        return OPTIONAL
