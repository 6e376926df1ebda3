"""Trains run folders one after the other in one process, so that a vLLM starts once: python many_runs.py FOLDER ...

Each folder gets `inputs.json`: what the losses were computed on, and how many tokens vLLM had generated for it.
ENGINE_MODEL names the folder that vLLM loads in place of the policy's.
"""

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any


def _keep_engine() -> None:
    """Every LLM that is made is the first one. Raises ValueError for one that would be another."""
    from vllm import LLM

    make, kept = LLM.__init__, []

    def __init__(self: Any, **named: Any) -> None:
        named["model"] = os.environ.get("ENGINE_MODEL", named.get("model"))
        if not kept:
            make(self, **named)
            self.llm_engine.engine_core.shutdown = lambda: None  # the next run goes on with it
            kept.append((named, dict(self.__dict__)))
        if kept[0][0] != named:
            raise ValueError(f"this engine was made with {kept[0][0]}, asked for is {named}")
        self.__dict__ = dict(kept[0][1])  # without what a run before put in the place of a method

    LLM.__init__ = __init__


def _note_generated(noted: dict[str, list[Any]]) -> None:
    """Keeps the lengths of what vLLM gives, before anything is cut."""
    from trl.generation.vllm_generation import VLLMGeneration

    generate = VLLMGeneration.generate

    def noting(self: Any, *given: Any, **named: Any) -> Any:
        answer = generate(self, *given, **named)
        noted["generated"] += [len(ids) for ids in answer[1]]
        return answer

    VLLMGeneration.generate = noting


def _note_inputs(noted: dict[str, list[Any]]) -> None:
    """Keeps what each loss is computed on."""
    from trl import GRPOTrainer

    compute_loss = GRPOTrainer.compute_loss

    def noting(self: Any, model: Any, inputs: Any, *given: Any, **named: Any) -> Any:
        noted["ids"] += inputs["completion_ids"].tolist()
        noted["mask"] += inputs["completion_mask"].tolist()
        return compute_loss(self, model, inputs, *given, **named)

    GRPOTrainer.compute_loss = noting


def main(folders: list[Path]) -> int:
    """Trains each and returns the first exit code that is not 0."""
    import torch

    from grpo_recipes.worker.run import train

    if "ENGINE_MODEL" in os.environ:
        _keep_engine()
        torch.distributed.destroy_process_group = lambda *_: None  # the engine goes on with it in the next run
    noted: dict[str, list[Any]] = {}
    _note_inputs(noted)
    _note_generated(noted)
    for folder in folders:
        noted.update(ids=[], mask=[], generated=[])
        gc.collect()
        gc.freeze()  # the Trainer collects garbage at its beginning, in the heap of all libraries
        os.chdir(folder)
        code = train(folder, resume=False)
        if code != 0:
            return code
        (folder / "inputs.json").write_text(json.dumps(noted))
    return 0


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]]))
