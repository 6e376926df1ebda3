"""The packages that a recipe uses, for rules."""

from collections.abc import Iterator, Mapping

from grpo_recipes.contract.tasks import PACKAGE
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context, NotJudged
from grpo_recipes.rules._shared.loaded_model import MODEL, model_config, quantized, sees
from grpo_recipes.rules._shared.training_rows import makes_rows

ALWAYS = ("torch", "transformers", "trl", "accelerate", "datasets")
OPTIONAL = frozenset({"bitsandbytes", "deepspeed", "liger-kernel", "math-verify", "peft", PACKAGE, "vllm"})
"""Packages of a stack that a recipe may not need."""

_LOADED_WITH = "AutoProcessor cannot load the model's processor without it"
WITH_MATH_VERIFY = tuple(
    f"trl.rewards:{name}" for name in ("accuracy_reward", "reasoning_accuracy_reward", "get_cosine_scaled_reward")
)


def package_of(optim: str) -> str | None:
    """The package that an optimizer needs beside torch, None without one."""
    packages: Mapping[str, str] = table("trainer_words")["optimizer_packages"]
    fitting = [start for start in packages if optim.startswith(start)]
    return packages[max(fitting, key=len)] if fitting else None


def needed(context: Context) -> Iterator[tuple[str, str, str, str]]:
    """package, key that asks for it, why, our extra that installs it; without vLLM and the optimizers' packages."""
    for package in ALWAYS:
        yield package, "recipe", "every run needs it", "train"
    if context.has_section("lora"):
        yield "peft", "lora", "`lora` needs it", "train"
    if quantized(context):
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
        yield PACKAGE, key, "its tasks make the rows and score the answers", PACKAGE
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


def unused(context: Context) -> frozenset[str]:
    """The packages that may be in the stack and that this recipe does not need.

    All of them if a deciding value was refused, since its needs are then unknown.
    """
    try:
        used = {package for package, *_ in needed(context)}
        if context.value("GRPOConfig.use_vllm") is True:
            used.add("vllm")
        return OPTIONAL - used - {package_of(context.text("GRPOConfig.optim"))}
    except NotJudged:
        return OPTIONAL
