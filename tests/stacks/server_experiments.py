"""What the trainer of a release asks of a vLLM server, of which there is none: its client alone is replaced."""

import importlib
import itertools
from pathlib import Path
from typing import Any

from raw_trl import grpo_config, model_folder, trainer

MODULE = "trl.trainer.grpo_trainer"


def _told(said: list[str]) -> Any:
    """A client that notes what it is told, and answers each prompt with the same token."""

    class Client:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: said.append("weights" if "param" in name else name)

        def generate(self, prompts: list[Any], n: int = 1, **_: Any) -> Any:
            said.append("generate")
            return [[5, 2]] * (len(prompts) * n)

    return Client


def calls(folder: Path, *, shim: bool) -> list[str]:
    """What the server is told in one step, each thing once in a row: weights, reset_prefix_cache, generate."""
    said: list[str] = []
    module = importlib.import_module(MODULE)
    module.is_vllm_available = lambda *_: True
    module.VLLMClient = _told(said)
    mode = {"vllm_mode": "server"} if hasattr(importlib.import_module("trl").GRPOConfig, "vllm_mode") else {}
    built = trainer(grpo_config(folder, use_vllm=True, max_steps=1, **mode), str(model_folder(folder)))
    if shim:
        from grpo_recipes.worker.shims.first_weights import on_trainer

        on_trainer(built, True, None)  # type: ignore[arg-type]
    said.clear()
    built.train()
    return [word for word, _ in itertools.groupby(said)]


def options(folder: Path) -> list[str]:
    """The options of the server that the release brings along, without an import of vLLM."""
    import ast

    import trl

    tree = ast.parse((Path(trl.__file__).parent / "scripts" / "vllm_serve.py").read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ScriptArguments"]
    fields = [node.target for one in classes for node in one.body if isinstance(node, ast.AnnAssign)]
    return [target.id for target in fields if isinstance(target, ast.Name)]
