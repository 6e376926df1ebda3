"""The stack has every package that the recipe needs.

trl, transformers, torch, accelerate and datasets always; peft for an adapter, bitsandbytes for quantization,
deepspeed for the ZeRO strategies, math-verify for the reward accuracy, liger-kernel for its kernels. A missing one
shows up as an ImportError in every process, some of them after the model was loaded.
"""

from collections.abc import Iterator

from grpo_recipes.finding import Finding
from grpo_recipes.rules.context import Context
from grpo_recipes.rules.quantization_needs_an_adapter import quantized

ID = "STK010"
# Where these are not known, the facts are not either, and that is said once (STK011).
OWNERS = ("trl", "transformers", "peft")
ALWAYS = ("torch", "transformers", "trl", "accelerate", "datasets")


def _needed(context: Context) -> Iterator[tuple[str, str, str, str]]:
    """package, key that asks for it, why, extra of ours that installs it."""
    for package in ALWAYS:
        yield package, "recipe", "every run needs it", "train"
    if context.has_section("lora"):
        yield "peft", "lora", "`lora` needs it", "train"
    if quantized(context):
        yield "bitsandbytes", "quantization", "`quantization` needs it", "quantization"
    if str(context.value("distributed.strategy")).startswith("zero"):
        yield "deepspeed", "distributed.strategy", "the ZeRO strategies are DeepSpeed's", "deepspeed"
    rewards = context.value("rewards")
    if isinstance(rewards, list) and any(reward.get("name") == "accuracy" for reward in rewards):
        yield "math-verify", "rewards", "the reward accuracy compares with it", "train"
    if context.value("GRPOConfig.use_liger_kernel") is True:
        yield "liger-kernel", "GRPOConfig.use_liger_kernel", "use_liger_kernel takes its kernels from it", ""


def check(context: Context) -> Iterator[Finding]:
    needed = list(_needed(context))
    unknown = [package for package, *_ in needed if not context.stack.is_known(package) and package not in OWNERS]
    if unknown:
        yield context.finding(
            ID,
            f"not checked: whether {', '.join(unknown)} {'is' if len(unknown) == 1 else 'are'} installed",
            "recipe",
            because=[f"{context.stack.origin} does not say"],
            severity="not-checked",
        )
    for package, key, why, extra in needed:
        if context.stack.is_absent(package):
            yield context.finding(
                ID,
                f"{package} is not installed",
                key,
                because=[why],
                fix=f"pip install 'grpo-recipes[{extra}]'" if extra else f"pip install {package}",
            )
