"""Each reward is listed once.

TRL adds the weighted rewards. If two entries have the same function and the same options, the function counts twice,
which a weight says more clearly. Usually the second entry was copied and should have had a different name. Entries with
other options, or for other sources of a mixture, are different rewards.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "RWD015"


def check(context: Context) -> Iterator[Finding]:
    entries = [
        {key: value for key, value in reward.items() if key not in ("weight", "label")}
        for reward in context.items("rewards")
    ]
    for index, entry in enumerate(entries):
        first = entries.index(entry)
        if first < index:
            named = next(str(entry[key]) for key in ("name", "python", "model", "judge") if entry.get(key) is not None)
            yield context.finding(
                f"reward {index + 1} is the same as reward {first + 1}: {named}",
                "rewards",
                "TRL adds both, so the function counts twice",
                fix="a different name, or remove it and set the weight of the first",
                severity="warning",
                mark=context.source.mark(("rewards", index)),
            )
