"""A model with its own code gets the cache of earlier tokens under the name that it knows.

transformers 5.24 renames `past_key_values` to `cache`, and generate passes only the new name. A class next to the
weights that was written for earlier releases ignores it. It then draws each token from the one before, as if the prompt
and the completion so far did not exist: the quickstart's weights behind such a class fell from 0.56 to 0.01 in four
steps, without an error. The shim `cache_keyword` passes the cache under the old name to a class that does not take the
new one. `--accept SHM033` leaves the class unchanged; PRF038 then stops a run that generates without its cache.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.loaded_model import has_own_code, model_config
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM033"
APPLIES_TO = {"transformers": ">=5.24.0"}
OWNS = ("shims.cache_keyword",)


def decide(context: Context) -> Iterator[Setting]:
    config = model_config(context)
    if context.value("GRPOConfig.trust_remote_code") is True and (config is None or has_own_code(config)):
        why = f"transformers {context.stack.version('transformers')} renames the keyword for the cache"
        yield rule_setting(OWNS[0], True, why)
