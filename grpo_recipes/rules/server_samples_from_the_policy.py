"""From the first step, a vLLM server samples from the policy, whatever weights an earlier run left on it.

TRL sends the weights to a server before it generates, unless it assumes that the server has them. TRL 0.16 assumes this
at the first step: a server that an earlier run used, or that was started from a different checkpoint, then samples from
its old weights until the first optimizer step. The shim `first_weights` sends them before the first generation, as
later releases do.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.vllms_gpu import is_server_mode

ID = "SHM020"
APPLIES_TO = {"trl": ">=0.16,<0.17"}
OWNS = ("shims.first_weights",)
READS = ("GRPOConfig.use_vllm", "GRPOConfig.vllm_mode")


def decide(context: Context) -> Iterator[Setting]:
    if is_server_mode(context):
        yield rule_setting(OWNS[0], True, "this TRL assumes that the server already has the policy's weights")
