"""Lets 4-bit and 8-bit models load on a CPU without Intel's extension for PyTorch.

Defect: transformers supports bitsandbytes on a CPU only if intel_extension_for_pytorch is installed, which earlier
releases of bitsandbytes needed. Otherwise it raises RuntimeError ("None of the available devices ... are supported by
the bitsandbytes version you have installed") or, up to 4.50, AttributeError for a frozenset.
Seen: transformers 4.48.3 to 4.52.4 with bitsandbytes 0.50.2, which needs no extension and trains there.
Remove when: these releases are no longer supported.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.replacing import replace


def before_trainer(value: object, plan: Plan) -> None:
    """Reports the extension as installed, only where bitsandbytes' devices are checked."""
    from transformers.integrations import bitsandbytes

    replace(bitsandbytes, "is_ipex_available", lambda: True)
