"""At least one reward has a weight above 0.

TRL adds up the weighted rewards. If every weight is 0, the sum is 0 for all completions, every advantage is 0, and the
run trains nothing; without any reward GRPOTrainer raises ValueError. Use weight 0 for a reward that is only measured.
An environment that has `get_reward` needs no other reward: TRL adds its result with the weight 1.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import code_of_section, read_environment

ID = "RWD007"


def check(context: Context) -> Iterator[Finding]:
    weights = [reward["weight"] for reward in context.items("rewards")]
    if any(weights) or {("environment",), ("environments",)} & context.refused:
        return
    code, environment = code_of_section(context, "environment"), read_environment(context)
    why = []
    if code is not None:
        if environment is None or (environment[1].is_open and "get_reward" not in environment[1].methods):
            message = f"not checked: whether {code.name} has get_reward, which would be the only reward with a weight"
            because = [f"{code.file} does not show all methods of the class"]
            yield context.not_checked(message, "rewards", because)
            return
        if "get_reward" in environment[1].methods:
            return
        why = [f"{code.file}:{environment[1].line}: {code.name} has no get_reward"]
    if weights:
        reason = ["the weighted sum is 0 for every completion, so nothing is trained", *why]
        yield context.wrong("every reward has weight 0", "rewards", reason, 1.0, at=("rewards", 0, "weight"))
    else:
        fix = "rewards: [{name: accuracy}]" + (", or a method get_reward" if why else "")
        yield context.finding("the recipe has no reward", "rewards", ["nothing scores a completion", *why], fix=fix)
