"""GRPOConfigs and GRPOTrainers built by the release at hand, of arguments that may be wrong."""

import json
import os
import warnings
from pathlib import Path
from typing import Any


def _config(processes: int, arguments: dict[str, Any]) -> Any:
    from transformers import TrainingArguments
    from trl import GRPOConfig

    TrainingArguments.world_size = property(lambda self: processes)
    return GRPOConfig(**{"output_dir": "out", "use_cpu": True, **arguments})


def _trainer(arguments: Any, model: str, lora: dict[str, Any] | None) -> None:
    """Builds a GRPOTrainer, which raises for what it does not take."""
    from datasets import Dataset
    from peft import LoraConfig
    from trl import GRPOTrainer

    GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [float(len(completion)) for completion in completions],
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": f"{n}+1="} for n in range(64)]),
        peft_config=LoraConfig(task_type="CAUSAL_LM", **lora) if lora is not None else None,
    )


def _raised(case: list[Any], *, is_built: bool) -> str:
    """What GRPOConfig, or GRPOTrainer with it, raises in a world of so many processes, "" when it takes the case."""
    from accelerate.state import AcceleratorState, PartialState

    environment = dict(os.environ)
    processes, arguments, model, lora = case
    try:
        config = _config(processes, {"report_to": "none", **arguments} if is_built else arguments)
        if is_built:
            _trainer(config, model, lora)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        AcceleratorState._reset_state(reset_partial_state=False)
        PartialState._reset_state()
        os.environ.clear()
        os.environ.update(environment)
    return ""


def constructed(folder: Path, *, file: str) -> list[str]:
    """What GRPOConfig raises for each case. file: lines of JSON: processes, arguments, model, and LoRA's or null."""
    return _answers(file, is_built=False)


def built(folder: Path, *, file: str) -> list[str]:
    """What GRPOConfig or GRPOTrainer raises for each case, of the same file."""
    return _answers(file, is_built=True)


def _answers(file: str, *, is_built: bool) -> list[str]:
    import transformers

    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    with warnings.catch_warnings(), open(file, encoding="utf-8") as lines:
        warnings.simplefilter("ignore")
        return [_raised(json.loads(line), is_built=is_built) for line in lines]
