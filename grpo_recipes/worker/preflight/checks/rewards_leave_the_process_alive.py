"""No reward ends its process, hangs, or takes all memory.

What: a call that takes longer than --time-limit, a process that ends by os._exit, a native crash or a signal, and a
process that uses more memory than --memory-limit (four fifths of the free memory). The line is the innermost line of
your file in faulthandler's output, if any.
Why: a hanging reward silently stops the training of all processes until a network timeout, half an hour later; a crash
ends it without a traceback.
Fix: set a timeout for anything that may take long (requests, code written by the model, a parser); run code written by
the model in a separate process.
Example: reward judge did not return within 60 s (rewards.py:12 in judge)
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.worker.preflight._shared.hosted import end_words
from grpo_recipes.worker.preflight._shared.reward_seen import Call, RewardSeen
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL021"


def check(inputs: Seen) -> Iterator[Finding]:
    for reward in inputs.rewards:
        failed = reward.failed
        if failed is not None and failed.kind == "killed":
            yield _fault(inputs, reward, failed)


def _fault(inputs: Seen, reward: RewardSeen, failed: Call) -> Finding:
    when = "it was being loaded" if failed.name == "load" else f"it was called with {len(failed.entries)} completions"
    fixes = {
        "time": "add a timeout to slow calls, or raise --time-limit",
        "memory": "use less memory, or raise --memory-limit",
    }
    return mistake(
        f"reward {reward.name} {end_words(failed.by, inputs.options.time_limit)}",
        reward.key,
        because=(failed.place, when) if failed.place else (when,),
        fix=fixes.get(failed.by, "run code that may crash in a separate process"),
    )
