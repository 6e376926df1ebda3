"""Columns that rewards read are not removed.

With remove_unused_columns the trainer keeps only prompt, image and images, since it does not know what rewards read. A
reward that reads a different column raises TypeError after the first generation. TRL's own default is false; recipes
for other trainers set true.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules.reward_columns_exist import columns_needed

ID = "RWD004"
REMOVES = "GRPOConfig.remove_unused_columns"


def check(context: Context) -> Iterator[Finding]:
    rewards = context.value("rewards")
    if context.value(REMOVES) is not True or not isinstance(rewards, list):
        return
    readers = [columns_needed(context, index, reward) for index, reward in enumerate(rewards)]
    readers = [(name, columns) for name, columns in readers if columns]
    if readers:
        because = [f"reward {name} reads {', '.join(columns)}" for name, columns in readers]
        yield context.wrong("remove_unused_columns removes columns that rewards read", REMOVES, because)
