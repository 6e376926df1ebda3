"""Imports and warms up the training stack once for all forks of a process."""

import functools
import gc


def import_libraries() -> None:
    """Imports what a worker does, but nothing of grpo_recipes, which is in each run folder."""
    import bitsandbytes  # noqa: F401
    import datasets  # noqa: F401
    import deepspeed  # noqa: F401 (accelerate does for each model, where it is installed)
    import peft.tuners.lora.bnb
    import peft.utils.transformers_weight_conversion  # noqa: F401
    import torch.utils.serialization.config
    import transformers.models.qwen2.modeling_qwen2
    import transformers.models.qwen2.tokenization_qwen2  # noqa: F401
    from accelerate.utils import imports
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: F401
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping
    from trl import GRPOConfig, GRPOTrainer  # noqa: F401

    get_checkpoint_conversion_mapping("qwen2")  # a thousand regular expressions, kept for every model
    # accelerate reads a package's metadata again at each call, several times in a step.
    imports._is_package_available = functools.cache(imports._is_package_available)
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
