"""For each process of a run that has this folder on PYTHONPATH: notes how long PRF011 compares, a line for each time.

The lines go to $TIMED_CALLS. $TIMED_EVERY is after how many generations it compares, so that a short run has several.
"""

import importlib.util
import os
import sys
import time
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MODULE = "grpo_recipes.worker.vllm.sampled"


def time_comparisons(module: ModuleType) -> None:
    """Replaces the comparison by one that notes its seconds on the first process."""
    compare = module.SamplerWitness._compare  # type: ignore[attr-defined]

    def timed(self: Any, inputs: Any) -> Any:
        began = time.perf_counter()
        compared = compare(self, inputs)
        if os.environ.get("RANK", "0") == "0":
            with open(os.environ["TIMED_CALLS"], "a", encoding="utf-8") as file:
                file.write(f"{time.perf_counter() - began}\n")
        return compared

    module.SamplerWitness._compare = timed  # type: ignore[attr-defined]
    module.EVERY = int(os.environ["TIMED_EVERY"])  # type: ignore[attr-defined]


class TimedModule:
    """Lets the replacement follow the module's own code."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name != MODULE:
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                time_comparisons(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, TimedModule())  # type: ignore[arg-type]
