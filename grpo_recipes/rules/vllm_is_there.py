"""Generation with vLLM needs vLLM.

`use_vllm: auto` uses it when it is installed and the run is on GPUs, else transformers generates. `use_vllm: true`
on a stack without vLLM fails in GRPOTrainer with ImportError, after the model was loaded.
`vllm_mode: auto` is colocate: vLLM runs in the training processes.
"""

from collections.abc import Iterator

from grpo_recipes.finding import Finding, Patch
from grpo_recipes.rules.context import Context, decided
from grpo_recipes.settings import Setting

ID = "GEN001"
USE_VLLM, VLLM_MODE = "GRPOConfig.use_vllm", "GRPOConfig.vllm_mode"
OWNS = (USE_VLLM, VLLM_MODE)
ORDER = 5


def decide(context: Context) -> Iterator[Setting]:
    if context.value(USE_VLLM) == "auto":
        yield _use_vllm(context)
    if context.value(VLLM_MODE) == "auto":
        yield decided(VLLM_MODE, "colocate", ID, "no server is named", context.settings)


def _use_vllm(context: Context) -> Setting:
    version = context.stack.version("vllm")
    if version is None:
        missing = "not installed" if context.stack.is_absent("vllm") else "not known to be installed"
        return decided(USE_VLLM, False, ID, f"vllm is {missing}, transformers generates", context.settings)
    if context.value("world.device") == "cpu":
        return decided(USE_VLLM, False, ID, "the run is on the CPU, transformers generates", context.settings)
    return decided(USE_VLLM, True, ID, f"vllm {version} is installed", context.settings)


def check(context: Context) -> Iterator[Finding]:
    if context.value(USE_VLLM) is not True:
        return
    if context.stack.is_absent("vllm"):
        yield context.finding(
            ID,
            "use_vllm is true and vllm is not installed",
            USE_VLLM,
            because=["GRPOTrainer raises ImportError for it, after the model was loaded"],
            fix="use_vllm: auto, or install vllm",
            patch=[Patch(("generation", "use_vllm"), "auto")],
        )
    elif not context.stack.is_known("vllm"):
        yield context.finding(
            ID,
            f"whether {context.stack.origin} has vllm is not known",
            USE_VLLM,
            severity="not-checked",
        )
