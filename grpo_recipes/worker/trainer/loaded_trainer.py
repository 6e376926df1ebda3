"""What the proofs before the first step look at, read off the trainer when it is built."""

import enum
from typing import Any

from accelerate.utils import gather_object

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.before_training.loaded import Loaded
from grpo_recipes.worker.trainer.live_model import device_name, parameter_devices, weight_dtypes, zero_stage
from grpo_recipes.worker.trainer.lora_names import expected_trainable
from grpo_recipes.worker.vllm.tokens import dtype_seen, tokens_seen

_OF_ADAPTERS = ("lora_", "modules_to_save")


def loaded_everywhere(plan: Plan, trainer: Any) -> list[Loaded]:
    """The trainers of all processes, in the order of their ranks; all processes call it."""
    own = [loaded(plan, trainer)]
    return own if trainer.accelerator.num_processes == 1 else list(gather_object(own))


def loaded(plan: Plan, trainer: Any) -> Loaded:
    """The trainer of this process."""
    parameters = dict(trainer.model.named_parameters())
    trained = {name for name, parameter in parameters.items() if parameter.requires_grad}
    is_lora = plan.expect.trainable == "lora"
    expected = expected_trainable(trainer.model, plan.arguments.LoraConfig or {}) if is_lora else set(parameters)
    named = [name for name in plan.expect.arguments if hasattr(trainer.args, name)]
    return Loaded(
        rank=trainer.accelerator.process_index,
        deepspeed_stage=zero_stage(trainer),
        arguments={name: _plain(getattr(trainer.args, name)) for name in named},
        trained=frozenset(trained),
        expected=frozenset(expected),
        numbers=sum(getattr(parameters[name], "ds_numel", parameters[name].numel()) for name in trained),
        weights=weight_dtypes(trainer, trainer.model, left_out=_OF_ADAPTERS),
        device=device_name(trainer.accelerator.device),
        parameter_devices=parameter_devices(trainer),
        vllm_dtype=dtype_seen(plan, trainer),
        vllm_tokens=tokens_seen(plan, trainer),
    )


def _plain(value: Any) -> Any:
    """A value as JSON has it: enums are their values, tuples are lists."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value if value is None or isinstance(value, str | int | float) else repr(value)
