"""What TRL's own parser makes of a configuration, and what its GRPOConfig makes of a plan's arguments."""

import enum
from pathlib import Path
from typing import Any


def _on_one_gpu() -> None:
    """This machine has no GPU with bfloat16, which newer releases ask for by default."""
    import transformers.training_args as arguments

    arguments.is_torch_bf16_gpu_available = lambda: True
    arguments.TrainingArguments.world_size = property(lambda self: 1)


def parsed(folder: Path, *, config: str) -> dict[str, Any]:
    """The values of the GRPOConfig that `trl grpo --config` trains with, by field."""
    import dataclasses

    from trl import GRPOConfig, ModelConfig, TrlParser
    from trl.scripts.grpo import GRPOScriptArguments

    _on_one_gpu()
    kinds: list[Any] = [GRPOScriptArguments, GRPOConfig, ModelConfig]
    try:
        from trl import DatasetMixtureConfig

        kinds.append(DatasetMixtureConfig)
    except ImportError:
        pass
    file = folder / "config.yaml"
    file.write_text(config, encoding="utf-8")
    made = TrlParser(kinds).parse_args_and_config(["--config", str(file)])[1]
    return {field.name: _plain(getattr(made, field.name)) for field in dataclasses.fields(made)}


def built(folder: Path, *, arguments: dict[str, Any]) -> dict[str, Any]:
    """The same of the arguments that the worker would pass."""
    import dataclasses

    from trl import GRPOConfig

    _on_one_gpu()
    made = GRPOConfig(output_dir=str(folder / "out"), **arguments)
    return {field.name: _plain(getattr(made, field.name)) for field in dataclasses.fields(made)}


def _plain(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bool | int | float | str | None):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return repr(value)
