"""Each reward expects completions in the form that TRL passes.

What: if the prompts are messages, a completion is [{"role": "assistant", "content": text}]; if they are plain text, it
is a text. A function that fails, or gives every completion the same reward, is called once more with the other form; if
that works, the form is the mistake.
Why: completion[0]["content"] raises TypeError on a text, and re.search on a list. len(completion) is 1 for every list
of messages: the reward is silently constant.
Fix: text = completion if isinstance(completion, str) else completion[-1]["content"]
Example: reward length reads completions as text, and they are messages
Source: trl's grpo_trainer.py (_generate).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.worker.preflight._shared.reward_seen import Call, RewardSeen
from grpo_recipes.worker.preflight._shared.seen import Seen, is_conversational

ID = "PFL023"


def explains(reward: RewardSeen) -> bool:
    """Whether the function works only with the other form."""
    failed = reward.failed
    if failed is not None:
        other = reward.call("one row", "other")
        return failed.name != "load" and other is not None and _differs(other)
    judged, other = reward.judged, reward.call("all", "other")
    return judged is not None and not _differs(judged) and other is not None and _differs(other)


def _differs(call: Call) -> bool:
    return call.kind == "values" and len({repr(value) for value in call.values}) > 1


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.data is None or not inputs.sample:
        return
    are_messages = any(is_conversational(inputs.data.prompts[index]) for index in inputs.sample)
    for reward in inputs.rewards:
        if not explains(reward):
            continue
        failed = reward.failed
        what, are = ("text", "messages") if are_messages else ("messages", "text")
        consequence = "it gives every completion the same value" if failed is None else failed.error
        yield mistake(
            f"reward {reward.name} reads completions as {what}, and they are {are}",
            reward.key,
            because=(consequence, failed.place if failed is not None else ""),
            fix='completion[-1]["content"] is the text' if are_messages else "completion is the text itself",
            severity="error" if failed is not None else "warning",
        )
