"""Values are within ten times of what is in use.

A misplaced digit trains another experiment without an error: with temperature 0.05 the completions of a group are
nearly equal, and with 1,000 epochs the model learns its rows by heart. The table has the lowest and the highest value
of each key in 267 public configuration files for GRPO (huggingface/open-r1 and its forks by EleutherAI and Neelectric,
huggingface/trl, axolotl-ai-cloud's axolotl, axolotl-cookbook and grpo_code, dhcode-cpp/X-R1, philschmid's examples).
The rule reports a value, if the recipe writes it, that is more than ten times beyond them; for a temperature, more than
twice. Learning rates that are too high have a rule with measurements, TRN007.
"""

from collections.abc import Iterator
from typing import NamedTuple

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules.completions_of_a_group_differ import NEARLY

ID = "TRN013"


class _Practice(NamedTuple):
    """The lowest and highest value in use, and how far beyond them a value is reported; None for no bound."""

    lowest: float | None
    highest: float | None
    times: float
    consequence: str


PRACTICE = {
    "GRPOConfig.temperature": _Practice(0.5, 1.2, 2, "it decides how much the completions of a group differ"),
    "GRPOConfig.num_train_epochs": _Practice(None, 10, 10, "the model learns its rows by heart"),
    "GRPOConfig.learning_rate": _Practice(1e-7, None, 10, "the weights hardly move"),
    "GRPOConfig.beta": _Practice(None, 0.08, 10, "the policy stays at the reference model"),
    "GRPOConfig.max_grad_norm": _Practice(0.01, None, 10, "nearly every step is cut to this length"),
    "GRPOConfig.num_iterations": _Practice(None, 4, 10, "old completions are trained on again and again"),
    "GRPOConfig.weight_decay": _Practice(None, 0.1, 10, "each step shrinks the weights by it times the learning rate"),
    "LoraConfig.r": _Practice(None, 64, 10, "the adapter is nearly as large as the model"),
    "LoraConfig.lora_dropout": _Practice(None, 0.1, 5, "most of the adapter is switched off at each step"),
}


def check(context: Context) -> Iterator[Finding]:
    for key, practice in PRACTICE.items():
        value = context.value(key)
        if not context.is_given(key) or not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
            continue
        if key == "GRPOConfig.temperature" and value <= NEARLY:
            continue  # GRP001 reports it
        is_low = practice.lowest is not None and value * practice.times < practice.lowest
        is_high = practice.highest is not None and value > practice.times * practice.highest
        if is_low or is_high:
            bounds = [f"{bound:g}" for bound in (practice.lowest, practice.highest) if bound is not None]
            in_use = f"{'at least' if practice.highest is None else 'up to'} {bounds[0]}"
            name = key.partition(".")[2]
            yield context.finding(
                f"{name} {value:g} is far {'below' if is_low else 'above'} what is in use",
                key,
                [
                    f"267 public files for GRPO write {' to '.join(bounds) if len(bounds) > 1 else in_use}",
                    practice.consequence,
                ],
                fix=f"{name}: {(practice.lowest if is_low else practice.highest):g}, or as you meant it",
                severity="warning",
            )
