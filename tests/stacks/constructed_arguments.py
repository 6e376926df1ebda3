"""GRPOConfigs built by the release at hand, of arguments that may be wrong."""

import json
import os
import warnings
from pathlib import Path
from typing import Any


def _raised(processes: int, arguments: dict[str, Any]) -> str:
    """What GRPOConfig raises in a world of so many processes, "" when it takes the arguments."""
    from accelerate.state import AcceleratorState, PartialState
    from transformers import TrainingArguments
    from trl import GRPOConfig

    environment = dict(os.environ)
    TrainingArguments.world_size = property(lambda self: processes)
    try:
        GRPOConfig(**{"output_dir": "out", "use_cpu": True, **arguments})
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        AcceleratorState._reset_state(reset_partial_state=False)
        PartialState._reset_state()
        os.environ.clear()
        os.environ.update(environment)
    return ""


def constructed(folder: Path, *, file: str) -> list[str]:
    """What each case raises. file: lines of JSON, each a number of processes and its arguments."""
    import transformers

    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    with warnings.catch_warnings(), open(file, encoding="utf-8") as lines:
        warnings.simplefilter("ignore")
        return [_raised(*json.loads(line)) for line in lines]
