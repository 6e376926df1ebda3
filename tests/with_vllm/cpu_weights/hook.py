"""Replaces the hand-over in the modules that have a part in it, when they are imported. Imports nothing until then.

It is imported at each start of a Python of .venv-vllm, also by those that never need it.
"""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

MODULES = (
    "trl.generation.vllm_client",
    "trl.generation.vllm_generation",
    "vllm.v1.worker.gpu_model_runner",
    "grpo_recipes.worker.shims.adapter_sync",
    "grpo_recipes.worker.shims.vllm_images",
)


class _Finder:
    """Finds the modules as the others do, and lets the replacement follow their own code."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name not in MODULES:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others)  # type: ignore[arg-type]
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            _replace_afterwards(spec.loader)
        return spec


def _replace_afterwards(loader: object) -> None:
    run = loader.exec_module  # type: ignore[attr-defined]

    def exec_module(module: ModuleType) -> None:
        from cpu_weights import hand_over

        run(module)
        hand_over.replace_in(module)

    loader.exec_module = exec_module  # type: ignore[attr-defined]


def install() -> None:
    """Puts the finder first, once."""
    if not any(type(finder).__name__ == _Finder.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]


install()
