"""The recipe does not use anything that its stack is known to do wrong.

A released combination of packages can be right for one recipe and wrong for another: trl 0.15.0 trains with vLLM, and
trains adapters, but with both together it samples from the base model. A reviewed table lists such defects with the
affected releases, the recipe keys that trigger them, how they were observed and the nearest releases without them. A
combination that works for no recipe is STK013.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.facts.broken_pairs import BrokenPair, broken_pairs
from grpo_recipes.rules._shared.context import Context

ID = "STK015"


def _values(context: Context, pair: BrokenPair) -> dict[str, object]:
    keys = [key for key, _, _ in pair.when]
    return {key: context.value(key) if "." in key else context.has_section(key) for key in keys}


def check(context: Context) -> Iterator[Finding]:
    for pair in broken_pairs():
        if pair.when and pair.holds(context.stack) and pair.is_met(_values(context, pair)):
            from grpo_recipes.facts.mending import mending_ways  # only for a stack with a defect

            yield context.finding(
                f"{pair.text_for(context.stack)}: {pair.happens}",
                pair.when[0][0],
                [pair.because, f"seen: {pair.seen}"],
                fix=pair.fix(mending_ways(context.stack, pair)),
                patch=[Patch(tuple(key.split(".")), value) for key, value in pair.write.items()],
            )
