"""Which packages a recipe uses, for rules; no rule itself."""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, NotJudged
from grpo_recipes.rules._shared.loaded_model import quantized

ALWAYS = ("torch", "transformers", "trl", "accelerate", "datasets")
OPTIONAL = frozenset({"bitsandbytes", "deepspeed", "liger-kernel", "math-verify", "peft", "vllm"})
"""Of a stack, what a recipe can do without."""

WITH_MATH_VERIFY = tuple(
    f"trl.rewards:{name}" for name in ("accuracy_reward", "reasoning_accuracy_reward", "get_cosine_scaled_reward")
)

# Beginning of the word for an optimizer -> its package; the longest that fits holds.
OPTIMIZERS = {
    "adalomo": "lomo-optim",
    "adamw_8bit": "bitsandbytes",
    "adamw_anyprecision": "torchdistx",
    "adamw_bnb": "bitsandbytes",
    "adamw_torch_4bit": "torchao",
    "adamw_torch_8bit": "torchao",
    "ademamix": "bitsandbytes",
    "apollo": "apollo-torch",
    "galore": "galore-torch",
    "grokadamw": "grokadamw",
    "lion": "bitsandbytes",
    "lomo": "lomo-optim",
    "paged": "bitsandbytes",
    "rmsprop_bnb": "bitsandbytes",
    "schedule_free": "schedulefree",
    "stable_adamw": "torch-optimi",
}


def package_of(optim: str) -> str | None:
    """The package that an optimizer needs beside torch, None without one."""
    fitting = [start for start in OPTIMIZERS if optim.startswith(start)]
    return OPTIMIZERS[max(fitting, key=len)] if fitting else None


def needed(context: Context) -> Iterator[tuple[str, str, str, str]]:
    """package, key that asks for it, why, extra of ours that installs it; without vLLM and the optimizers' own."""
    for package in ALWAYS:
        yield package, "recipe", "every run needs it", "train"
    if context.has_section("lora"):
        yield "peft", "lora", "`lora` needs it", "train"
    if quantized(context):
        yield "bitsandbytes", "quantization", "`quantization` needs it", "quantization"
    if str(context.value("distributed.strategy")).startswith("zero"):
        yield "deepspeed", "distributed.strategy", "the ZeRO strategies are DeepSpeed's", "deepspeed"
    rewards = context.value("rewards")
    for reward in rewards if isinstance(rewards, list) else []:
        if reward.get("name") == "accuracy" or reward.get("python") in WITH_MATH_VERIFY:
            name = str(reward.get("name") or reward["python"])
            yield "math-verify", "rewards", f"the reward {name} compares with it", "train"
            break
    if context.value("GRPOConfig.use_liger_kernel") is True:
        yield "liger-kernel", "GRPOConfig.use_liger_kernel", "use_liger_kernel takes its kernels from it", ""


def unused(context: Context) -> frozenset[str]:
    """The packages that may be in the stack and that this recipe does without.

    All of them where a value that decides was refused: what it would have used is not known.
    """
    try:
        used = {package for package, *_ in needed(context)}
        if context.value("GRPOConfig.use_vllm") is True:
            used.add("vllm")
        return OPTIONAL - used - {package_of(context.text("GRPOConfig.optim"))}
    except NotJudged:
        return OPTIONAL
