"""Completions are scored at the temperature that they are sampled at.

The log-probs of the loss and of the reference model belong to the distribution that the completions come from: logits
divided by generation.temperature. TRL before 0.16 samples at the temperature but leaves it out of the loss, so a
temperature other than 1 would be a different experiment there. The shim `scored_temperature` divides the logits on
those releases.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM022"
APPLIES_TO = {"trl": "<0.16.0"}
OWNS = ("shims.scored_temperature",)


def decide(context: Context) -> Iterator[Setting]:
    temperature = context.value("GRPOConfig.temperature")
    if isinstance(temperature, int | float) and temperature not in (0, 1):
        why = f"trl {context.stack.version('trl')} leaves the temperature out of the loss"
        yield rule_setting(OWNS[0], temperature, why)
