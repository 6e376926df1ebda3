"""transformers supports continuous batching.

GRPOTrainer uses the batching of transformers 5.8 and raises ImportError on older releases, after loading the model.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "GRP006"
APPLIES_TO = {"trl": ">=1.7", "transformers": "<5.8"}
CONTINUOUS = "GRPOConfig.use_transformers_continuous_batching"


def check(context: Context) -> Iterator[Finding]:
    if context.value(CONTINUOUS) is True and context.value("GRPOConfig.use_vllm") is not True:
        text = "use_transformers_continuous_batching needs transformers 5.8"
        because = f"the stack has transformers {context.stack.version('transformers')}"
        yield context.wrong(
            text, CONTINUOUS, because, False, fix="use_transformers_continuous_batching: false, or transformers==5.8.0"
        )
