"""vLLM computes in the planned dtype, if it reports one.

Catches: a server that was started with a different --dtype, or whose model has a different default. Its
log-probabilities would differ from the policy's by more than PRF010 allows.
Source: vllm 0.31.0 (model_config.dtype, /server_info of its development mode).
"""

from collections.abc import Iterator

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.before_training.compared import Compared, Loaded

ID = "PRF017"
NAME = "dtype of vLLM"


def compare(plan: Plan, seen: Loaded) -> Iterator[Compared]:
    """The dtype that the engine or the server names."""
    if plan.vllm is None or seen.vllm_dtype is None:
        return
    because = "its probabilities would differ from the policy's by more than the plan allows"
    yield Compared("dtype of vLLM", plan.vllm.dtype, seen.vllm_dtype, because, f"vLLM with --dtype {plan.vllm.dtype}")
