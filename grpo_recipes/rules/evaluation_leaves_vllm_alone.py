"""An evaluation leaves vLLM to the training as it was, also where vLLM answers the held-out rows.

vLLM in the training processes answers them (`colocate`). Each completion has a seed of its own, from the recipe's seed,
the row and the sample; what the engine draws beside that comes from generators that are put back, and each generation
of the training begins at its own seed, with the weights handed over anew and the cache of prompts cleared. The training
is bit for bit the one without an evaluation.

A server draws from random numbers in a process of its own, which go on from request to request. By its source vLLM 0.31
moves them on a CPU even for requests that have their seeds, and not on a GPU. So transformers answer beside a
server, unless `evaluation.use_vllm: true` asks for it; what is trained is as likely then, and another draw. It is no
less reproducible: a server takes requests as they arrive, and two trainings with one differ anyway.

transformers also answer where `use_vllm: false` asks for them, where the model calls tools, and on releases of TRL
before 1.11.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.rules._tools.said_tools import turns_of
from grpo_recipes.settings import Setting

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
        who, why = "transformers", "rows that call tools in other numbers of turns are not asked of vLLM together"
    elif asked is False:
        who, why = "transformers", f"use_vllm: false ({context.origin('evaluation.use_vllm')})"
    elif context.value("GRPOConfig.vllm_mode") == "colocate":
        who, why = "vllm", "seeded by row, which leaves the training's random numbers as they are"
    elif asked is True:
        who, why = "vllm", "use_vllm: true; the server's random numbers may move: as likely a training, not the same"
    else:
        who, why = "transformers", "the server's random numbers are the training's; evaluation.use_vllm: true asks it"
    yield decided(GENERATED_BY, who, ID, why, context.settings)
