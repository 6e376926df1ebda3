"""Rewards do not slow down the training.

What: the time of one call per completion, times the completions of one optimizer step; a note above 10 seconds per
step, a warning above a minute. It is an estimate: a function that judges its batch in parallel needs less time per
completion in a larger batch.
Why: all GPUs wait for the rewards.
Fix: write an async def function, which TRL awaits together with the others; judge in parallel; compile patterns once.
Example: reward judge takes 0.8 s for a completion, about 102 s of each optimizer step
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL027"
NOTE_S = 10.0
WARNING_S = 60.0


def check(inputs: Seen) -> Iterator[Finding]:
    options = inputs.options
    per_step = options.completions_per_call * options.calls_per_step / max(1, inputs.plan.expect.world_size)
    for reward in inputs.rewards:
        call = reward.judged
        if call is None:
            continue
        seconds = call.seconds / len(call.values)
        if seconds * per_step >= NOTE_S:
            steps = options.max_steps
            total = f", {seconds * per_step * steps / 3600:.1f} h in {steps} steps" if steps else ""
            yield mistake(
                f"reward {reward.name} takes {seconds:.2g} s for a completion, about {seconds * per_step:.0f} s of "
                "each optimizer step",
                reward.key,
                because=f"a process judges {per_step:.0f} completions in a step{total}",
                fix="judge in parallel, or make it an async function",
                severity="warning" if seconds * per_step >= WARNING_S else "note",
            )
