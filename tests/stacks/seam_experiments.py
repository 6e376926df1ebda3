"""An experiment that trains a run folder with a renamed member of TRL's trainer."""

import hashlib
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any


def renamed(folder: Path, *, run_folder: str, member: str) -> dict[str, Any]:
    """The exit code, and a digest of the final weights, of a training whose trainer has another name for a member.

    member: "" renames nothing. The name is changed where it is defined and where it is called, as a release would.
    """
    import transformers
    import trl
    from transformers import trainer as of_transformers
    from trl.trainer import grpo_trainer

    if member:
        _rename(of_transformers, member)
        transformers.Trainer = of_transformers.Trainer
        if find_spec("trl.trainer.base_trainer") is not None:  # between the two in newer releases
            _rename(import_module("trl.trainer.base_trainer"), member)
        _rename(grpo_trainer, member)
        trl.GRPOTrainer = grpo_trainer.GRPOTrainer
        for name in [name for name in sys.modules if name.startswith("grpo_recipes.worker.")]:
            del sys.modules[name]  # its classes are made of those that were there
    from grpo_recipes.worker.run import train

    exit_code = train(Path(run_folder), resume=False)
    final = sorted((Path(run_folder) / "final").glob("*.safetensors"))
    return {"exit_code": exit_code, "weights": [hashlib.sha256(file.read_bytes()).hexdigest() for file in final]}


def _rename(module: ModuleType, member: str) -> None:
    assert module.__file__ is not None
    source = re.sub(rf"(def |self\.|super\(\)\.){member}\(", rf"\1another_{member}(", Path(module.__file__).read_text())
    exec(compile(source, module.__file__, "exec"), vars(module))
