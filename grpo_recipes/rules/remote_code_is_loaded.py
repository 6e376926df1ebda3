"""A model with its own code is loaded if the recipe allows the code.

`model.trust_remote_code: true` allows the class next to the weights to run. Given a path, trl 0.20 to 1.6 reads the
configuration without that option, and looks for the class in transformers: the run ends in ValueError or
AttributeError. The shim `remote_code` registers the class on these releases. As for all code, a run asks for consent
first.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.loaded_model import has_own_code, model_config
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM010"
APPLIES_TO = {"trl": ">=0.20.0,<1.7.0"}
OWNS = ("shims.remote_code",)


def decide(context: Context) -> Iterator[Setting]:
    config = model_config(context)
    if context.value("GRPOConfig.trust_remote_code") is True and (config is None or has_own_code(config)):
        why = f"trl {context.stack.version('trl')} does not load a class that is next to the weights"
        yield rule_setting(OWNS[0], True, why)
