"""Before TRL 0.18, a generation feeds one optimizer step.

TRL 0.18 added steps_per_generation and generation_batch_size. Older releases generate for one optimizer step at a time;
num_iterations, since 0.16, trains the same completions again.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "BAT005"
APPLIES_TO = {"trl": "<0.18"}
PER_GENERATION = "grpo.optimizer_steps_per_generation"
STEPS = "GRPOConfig.steps_per_generation"
ACCUMULATION = "GRPOConfig.gradient_accumulation_steps"


def check(context: Context) -> Iterator[Finding]:
    because = [f"trl {context.stack.version('trl')} generates for one optimizer step at a time"]
    if context.whole(PER_GENERATION) > 1:
        text = f"optimizer_steps_per_generation {context.value(PER_GENERATION)} needs steps_per_generation"
        yield context.wrong(text, PER_GENERATION, because, 1, fix="optimizer_steps_per_generation: 1, or trl==0.18.0")
    if context.is_given(STEPS) and context.value(STEPS) not in (None, context.value(ACCUMULATION)):
        text = f"steps_per_generation {context.value(STEPS)} differs from gradient_accumulation_steps"
        yield context.wrong(text, STEPS, because, fix="remove steps_per_generation, or trl==0.18.0")
