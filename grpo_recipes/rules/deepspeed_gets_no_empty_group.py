"""DeepSpeed gets no empty parameter group for an adapter.

transformers gives the optimizer of an adapter an empty group of parameters, which DeepSpeed drops. Up to 5.2,
transformers creates the learning-rate schedule before that, and the first step ends in "ValueError: zip() argument 2 is
longer than argument 1". The shim `empty_parameter_groups` leaves the empty group out.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM016"
APPLIES_TO = {"transformers": "<5.3"}
OWNS = ("shims.empty_parameter_groups",)
READS = ("distributed.strategy",)


def decide(context: Context) -> Iterator[Setting]:
    if context.has_section("lora") and str(context.value("distributed.strategy")).startswith("zero"):
        yield rule_setting(OWNS[0], True, "DeepSpeed drops the parameter group that an adapter leaves empty")
