"""An evaluation does not change the training, even if vLLM generates the held-out completions.

vLLM in the training processes answers them (`colocate`). Each completion has its own seed, from the recipe's seed, the
row and the sample. The engine's other random generators are restored afterwards, and each training generation starts
with its own seed, fresh weights and an empty prompt cache. So training is bit for bit the same as without evaluation.

A server has its own random numbers, which advance from request to request. According to its source, vLLM 0.31 advances
them on a CPU even for requests with their own seeds, but not on a GPU. So with a server, transformers generates the
held-out completions unless `evaluation.use_vllm: true` selects the server; training then continues with different,
equally likely draws. The run is not less reproducible: a server handles requests as they arrive, so two runs with one
differ anyway.

transformers also answers if `use_vllm: false` says so, if the model calls tools, if rows have images, and with TRL
before 1.11.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.said_tools import turns_of
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.training_rows import image_columns

ID = "EVL006"
APPLIES_TO = {"trl": ">=1.11"}
GENERATED_BY = "evaluation.generated_by"
OWNS = (GENERATED_BY,)
READS = ("GRPOConfig.use_vllm", "GRPOConfig.vllm_mode")


def decide(context: Context) -> Iterator[Setting]:
    if not context.has_section("evaluation") or context.value("GRPOConfig.use_vllm") is not True:
        return
    asked = context.value("evaluation.use_vllm")
    if turns_of(context) is not None:
        who, why = "transformers", "rows that call tools have different numbers of turns"
    elif image_columns(context):
        who, why = "transformers", "vLLM gets only the images of training prompts"
    elif asked is False:
        who, why = "transformers", f"use_vllm: false ({context.origin('evaluation.use_vllm')})"
    elif context.value("GRPOConfig.vllm_mode") == "colocate":
        who, why = "vllm", "each row has its own seed, so training's random numbers do not change"
    elif asked is True:
        who, why = "vllm", "use_vllm: true; the server's random numbers may advance, which changes training"
    else:
        who, why = (
            "transformers",
            "training needs the server's random numbers; evaluation.use_vllm: true uses it anyway",
        )
    yield rule_setting(GENERATED_BY, who, why)
