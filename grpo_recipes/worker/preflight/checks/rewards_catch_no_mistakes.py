"""A reward does not catch its own mistakes.

What: a reward that gives every completion the same is called once more, and preflight lists the exceptions that it
raises and catches. Reported: one that is not about a text, and that every completion raises on the same line: a
TypeError or AttributeError (unless it is about None, as a pattern without a match gives), a NameError, an ImportError,
or a KeyError for the same key.
Why: `except Exception: return 0.0` is meant for completions that cannot be judged, but also catches a misspelt name, a
missing package, and a list of messages where the code expects text. The reward is then silently constant.
Fix: correct the line; catch only what a bad completion raises, such as ValueError or json.JSONDecodeError.
Example: reward fields catches its own TypeError for every completion: the JSON object must be str, not list
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.worker.preflight._shared.reward_seen import CAUGHT, RewardSeen, cut, record
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight.checks import completions_have_the_shape

ID = "PFL060"
MISTAKES = ("TypeError", "AttributeError", "NameError", "UnboundLocalError", "ImportError", "ModuleNotFoundError")
OF_A_KEY = "KeyError"
NO_MATCH = "NoneType"


def check(inputs: Seen) -> Iterator[Finding]:
    for reward in inputs.rewards:
        if completions_have_the_shape.explains(reward):
            continue
        for error, place in mistakes(reward)[:1]:
            kind, _, text = error.partition(": ")
            assert reward.judged is not None
            value = reward.judged.values[0]
            yield warning(
                f"reward {reward.name} catches its own {kind} for every completion: {cut(text, 120)}",
                reward.key,
                because=(place, f"it gives {'no reward' if value is None else record(value)} to every completion"),
                fix="correct that line, and catch only what a bad completion raises, such as ValueError",
            )


def mistakes(reward: RewardSeen) -> list[tuple[str, str]]:
    """Returns the exceptions, with their place, that every completion raised, or the call once for all of them."""
    call = reward.call(CAUGHT)
    if call is None or call.kind != "values" or len({*map(repr, call.values)}) > 1:
        return []
    return [
        (error, place)
        for error, place, count in call.caught
        if count == 1 or count >= len(call.entries)
        if error.partition(":")[0] in (*MISTAKES, OF_A_KEY) and NO_MATCH not in error
    ]
