"""Lets 4-bit and 8-bit models load on a processor without Intel's extension for PyTorch.

Defect: transformers takes a processor for a device of bitsandbytes only where intel_extension_for_pytorch is installed,
which bitsandbytes needed once. It raises RuntimeError ("None of the available devices ... are supported by the
bitsandbytes version you have installed") or, up to 4.50, AttributeError for a frozenset.
Seen: transformers 4.48.3 to 4.52.4 with bitsandbytes 0.50.2, which needs no extension: it trains there.
Remove when: these releases are no longer supported.
"""

from grpo_recipes.contract.plan import Plan


def before_trainer(value: object, plan: Plan) -> None:
    """Answers the question for the extension with yes where bitsandbytes' devices are checked, and nowhere else."""
    from transformers.integrations import bitsandbytes

    bitsandbytes.is_ipex_available = lambda: True
