"""The model builds only the completion's logits, whatever TRL and the model's class call that argument.

TRL scores the last C + 1 positions and asks the model for only their logits: by num_logits_to_keep in trl 0.14, by
logits_to_keep up to 1.14. transformers uses the first name up to 4.48 and the second since 4.49, and GPT2, OPT, Bloom,
Qwen2-VL and others had neither for a long time. If the names differ, the model builds the logits of the whole sequence,
(P + C) / (C + 1) times the memory, or the step ends in TypeError or RuntimeError, or trl 0.14 silently takes
log-probabilities from the wrong positions. The shim `logits_to_keep` makes every class build (B, C + 1, V). For an
unknown class, of a hub model or with its own code, it inspects the loaded model, and does nothing if nothing is needed.

Advice that does not help: clearing the hub's cache or downloading the model again, since the keyword is in the
library's code and not in the checkpoint; and comparing versions as strings, by which "4.100.0" comes before "4.50".
"""

from collections.abc import Iterator

from grpo_recipes.facts.released.logits import logits_keyword_of_trl
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.loaded_model import has_own_code, model_config
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM007"
APPLIES_TO = {"trl": ">=0.14.0,<1.15.0"}
OWNS = ("shims.logits_to_keep",)


def decide(context: Context) -> Iterator[Setting]:
    trl = context.stack.version("trl")
    passed = None if trl is None else logits_keyword_of_trl(trl)
    if passed is None:
        return
    name = _model_class(context)
    known = None if name is None else context.facts.logits_keyword(name)
    if known is None:
        why = f"trl {trl} passes {passed}; {name or 'the class of this model'} is inspected when it is loaded"
    elif known.takes(passed):
        return
    else:
        release = f"{name} of transformers {context.stack.version('transformers')}"
        why = f"{release} takes {known.name or 'no such keyword'}, trl {trl} passes {passed}"
    yield rule_setting(OWNS[0], True, why)


def _model_class(context: Context) -> str | None:
    """The class that config.json names, None if unknown or if its code is next to the weights."""
    config = model_config(context) or {}
    names = config.get("architectures")
    return str(names[0]) if isinstance(names, list) and names and not has_own_code(config) else None
