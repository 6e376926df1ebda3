"""The memory of each GPU is enough for the recipe.

grpo-run estimates weights, gradients, optimizer states, activations, probabilities, vLLM's share and everything else a
GPU holds, for each phase of a run, from config.json and the settings; `grpo-run fit` and `grpo-run plan` show the
terms. A run that needs more ends in an out-of-memory error, often hours later, when completions get as long as
max_completion_length allows.

It is an error if the part that does not depend on text lengths does not fit (weights, adapter, reference, gradients,
optimizer states and the CUDA context), or if even 1.15 of the GPU and prompts of 64 tokens would not be enough. With
known prompt lengths, no estimate was ever that far from a measurement; on an H200 estimates for LoRA of 0.5B to 14B and
full training of 0.5B to 3B were 1 to 4 % above what torch allocated, without the CUDA context. Without
max_prompt_length or a preflight, prompts of 512 tokens are assumed, and the estimate was up to 2.4 times what short
ones took. At 0.92 of the GPU or more it is a warning, which shows the part that does not depend on texts and the
estimate.

With images it is an error only if weights, adapter, reference, gradients, optimizer states and the CUDA context do not
fit: their vision part is exact, but no vision model was measured on a GPU.

The fixes keep the experiment unless they say otherwise. The rule does not judge models, options or releases that the
estimate does not cover, models whose config.json is missing, or runs on the CPU. If several sizes share a GPU's name,
it judges the smallest.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import GIB, gpu_bytes
from grpo_recipes.rules.strategy_fits_the_world import learns_the_same_in_shards
from grpo_recipes.rules.vllms_share_holds_the_model import check as share_is_wrong
from grpo_recipes.rules.vllms_share_holds_the_model import sizes

if TYPE_CHECKING:
    from grpo_recipes.memory.estimate import MemoryNeeds

ID = "MEM001"
MODEL = "model.model_name_or_path"
SURELY = 1.15
"""The most by which an estimate exceeded its measurement; see benchmarks/memory.md."""
LEAST_PROMPT = 64
"""Tokens of a short prompt; the real ones are not known before the data is read."""
SHOWN_TERMS = 4


def check(context: Context) -> Iterator[Finding]:
    memory = gpu_bytes(context)
    if memory is None:
        if context.stack.gpus and context.value("world.device") != "cpu":
            yield _not_known(context, f"{context.stack.origin} does not say how much memory each GPU has")
        return
    if any(share_is_wrong(context)):
        return
    # A recipe for a CPU does not pay for it.
    from grpo_recipes.rules._shared.memory_needs import memory_needs

    needs = memory_needs(context)
    if isinstance(needs, str):
        yield _not_known(context, needs)
        return
    if needs.config is None:
        yield _not_known(context, f"grpo-run does not know the sizes of {context.text(MODEL)}")
        return
    estimate = needs.estimate()
    peak, verdict = estimate.peak(), estimate.verdict()
    if peak is None:
        yield _not_known(context, estimate.unknown)
    elif verdict != "fits":
        from grpo_recipes.rules._shared.less_memory import less_memory

        is_error = any(phase.certain() > memory for phase in estimate.phases)
        is_error = is_error or (not needs.update.pixels and _least(needs) > SURELY * memory)
        needed = "" if is_error else f"{peak.certain() / GIB:.1f} to "
        in_vllm, is_same = sizes(context), learns_the_same_in_shards(context)
        copy = in_vllm.copy if in_vllm is not None else None
        ways = less_memory(context, needs, shards_learn_the_same=is_same, vllms_copy=copy)
        terms = sorted(peak.terms, key=lambda term: -term.size)[:SHOWN_TERMS]
        listed = ", ".join(f"{term.size / GIB:.1f} {term.name}" for term in terms)
        largest = f"completions of {needs.update.completion} tokens, {needs.update.batch} in a micro-batch"
        keeping = next((way.patch for way in ways if way.patch), ())
        yield context.finding(
            f"{peak.name} needs {needed}{peak.total() / GIB:.1f} GiB of each GPU, which has {memory / GIB:.1f}"
            + (": tight" if verdict == "tight" else ""),
            MODEL,
            [
                listed,
                f"an estimate for {largest}, strategy {needs.layout.strategy}",
                *(f"assumed: {assumption}" for assumption in needs.assumed),
            ],
            fix=", or ".join(way.said for way in ways) or "a smaller model: no known change is enough",
            patch=keeping,
            severity="error" if is_error else "warning",
        )


def _least(needs: "MemoryNeeds") -> int:
    """Bytes of a GPU that the run needs with short prompts."""
    prompt = min(LEAST_PROMPT, needs.update.prompt)
    peak = needs._replace(update=needs.update._replace(prompt=prompt)).estimate().peak()
    return peak.total() if peak is not None else 0


def _not_known(context: Context, why: str) -> Finding:
    return context.not_checked("whether the GPUs have enough memory is unknown", MODEL, why)
