"""Liger's kernels do not replace TRL's output layer.

Since 1.15, TRL computes log-probs in its own fused output layer. Liger's fused linear cross entropy would replace the
model's forward, and GRPOTrainer raises ValueError for it, after loading the model.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "GRP007"
APPLIES_TO = {"trl": ">=1.15"}
CONFIG, FUSED = "GRPOConfig.liger_kernel_config", "fused_linear_cross_entropy"


def check(context: Context) -> Iterator[Finding]:
    if context.value("GRPOConfig.use_liger_kernel") is True and context.mapping(CONFIG).get(FUSED):
        path = ("trl", "liger_kernel_config", FUSED)
        because = "TRL's own fused output layer computes the log-probs"
        yield context.wrong(f"{FUSED} conflicts with TRL's fused output layer", CONFIG, because, False, at=path)
