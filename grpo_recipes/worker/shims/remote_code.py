"""Lets TRL load a model whose class is in its own folder.

Defect: given a path, TRL reads the configuration without trust_remote_code and looks up the class in transformers. A
model with its own code fails with ValueError, "pass the argument trust_remote_code=True", although it was passed; in a
terminal the library first asks the user.
Seen: trl 0.21.0 with transformers 4.55.4. trl 0.19 and 1.7 load such a model.
Remove when: trl 0.20 to 1.6 are no longer supported.
"""

import transformers
from transformers import AutoConfig
from transformers.dynamic_module_utils import get_class_from_dynamic_module

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.planned import trust_remote_code
from grpo_recipes.worker._shared.replacing import Refused

AUTO_CLASS = "AutoModelForCausalLM"


def before_trainer(value: object, plan: Plan) -> None:
    """Registers configuration and class where TRL looks for them.

    Does nothing for a class of transformers itself, or if the plan does not allow the model's code. Raises Refused if
    the model names no class for text generation.
    """
    if not trust_remote_code(plan):
        return
    path, revision = plan.model.path, plan.model.revision
    config = AutoConfig.from_pretrained(path, revision=revision, trust_remote_code=True)
    classes = getattr(config, "auto_map", None)
    if not classes:
        return
    if AUTO_CLASS not in classes:
        raise Refused.of(f"{path}: its code has no {AUTO_CLASS}", because="auto_map in its config.json has no such key")
    if config.model_type not in transformers.CONFIG_MAPPING:
        AutoConfig.register(config.model_type, type(config))
    own = get_class_from_dynamic_module(classes[AUTO_CLASS], path, revision=revision)
    setattr(transformers, config.architectures[0], own)
