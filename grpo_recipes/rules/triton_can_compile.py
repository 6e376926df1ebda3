"""Triton finds a C compiler and Python's headers, if a run on GPUs needs Triton.

Triton compiles a small C module against Python.h when it first starts a kernel, separately on each machine, so it needs
a C compiler and Python's headers in addition to the driver. Since trl 1.15, the loss itself is a Triton kernel; in
older releases, torch.compile, Liger's kernels and vLLM use Triton. Slim images have neither: the first step, after
loading the model and generating the first completions, ends with "Failed to find C compiler" or "Python.h: No such file
or directory".
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.released.logits import logits_keyword_of_trl
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.fitting import TRITON, triton_compiler

ID = TRITON
# Parts of a recipe that start Triton kernels.
STARTS = {
    "GRPOConfig.torch_compile": "torch.compile",
    "GRPOConfig.use_liger_kernel": "Liger's kernels",
    "GRPOConfig.use_vllm": "vLLM",
}


def check(context: Context) -> Iterator[Finding]:
    problem = triton_compiler(context.stack)
    if problem is None or context.value("world.device") != "cuda":
        return
    trl = context.stack.version("trl")
    users = [f"the loss of trl {trl}"] if trl is not None and logits_keyword_of_trl(trl) is None else []
    users += [name for key, name in STARTS.items() if context.value(key) is True]
    if users:
        uses = f"{', '.join(users)} {'uses' if len(users) == 1 else 'use'} Triton"
        yield context.finding(problem.message, "launch.gpus_per_node", (uses, *problem.because), fix=problem.fix)
