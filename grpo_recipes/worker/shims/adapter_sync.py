"""Sends vLLM only the adapter, under a new name at each sync, and leaves the base as vLLM loaded it.

Defect: TRL merges the adapter and sends vLLM all weights before every generation: 15 GB for an adapter of 160 MB on a
model of 7B. From a quantized model it sends the packed weights without their scales.
Seen: every release up to trl 1.16.0 (huggingface/trl, issue 4973).
Remove when: TRL can send vLLM an adapter.
"""

import importlib
import itertools
import os
import uuid
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.folder_files import remove_tree
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import module_with_engine, vllm_client, vllm_engine
from grpo_recipes.worker._shared.replacing import Refused, replace

TIMEOUT_S = 600


def before_trainer(value: object, plan: Plan) -> None:
    """Makes an engine in this process generate with its adapter; a server needs no process group for weights."""
    module = module_with_engine()
    if module is not None:
        replace(module, "LLM", _under_an_adapter(module.LLM))
    client: Any = importlib.import_module("trl.generation.vllm_client").VLLMClient
    replace(client, "init_communicator", lambda self, device=0: None)


def _under_an_adapter(engine: Any) -> Any:
    """Returns vLLM's LLM as a class that generates with `adapter`: None until the first sync."""

    class LLMUnderAnAdapter(engine):  # type: ignore[misc]
        adapter: Any = None

        def generate(self, *given: Any, **named: Any) -> Any:
            return super().generate(*given, **{"lora_request": self.adapter, **named})

    return LLMUnderAnAdapter


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Replaces TRL's weight sync."""
    adapters = _AdaptersOfVllm(trainer)
    trainer.seams.change("vLLM gets weights", "adapter", lambda _: adapters.hand_over())
    return "vLLM gets the adapter alone"


class _AdaptersOfVllm:
    """Sends adapters to vLLM, each in its own folder, which is removed once the next one exists.

    No name is used twice, even on a server that outlives the run, because vLLM caches prompts by the adapter's name.
    """

    def __init__(self, trainer: Any) -> None:
        self._model, self._engine, self._client = trainer.model, vllm_engine(trainer), vllm_client(trainer)
        rank = trainer.accelerator.process_index
        self._folder = Path(trainer.args.output_dir).parent / "cache" / f"adapter-{rank}"  # empty at each start
        self._run, self._versions = uuid.uuid4().hex[:8], itertools.count(1)
        self._before: tuple[str, int] | None = None

    def hand_over(self) -> None:
        """Replaces sync_weights. Raises Refused if a server rejects the adapter."""
        version = next(self._versions)
        name = f"policy-{self._run}-{version}"
        if self._engine is None and self._client is None:
            return  # only the first process calls a server
        path = self._folder / name
        self._model.save_pretrained(str(path), save_embedding_layers=False)
        if self._engine is not None:
            self._give_engine(name, version, path)
        else:
            self._give_server(name, path)
        if self._before is not None:
            remove_tree(self._folder, self._before[0])
        self._before = name, version

    def _give_engine(self, name: str, version: int, path: Path) -> None:
        request = importlib.import_module("vllm.lora.request").LoRARequest(name, version, str(path))
        if self._before is not None:
            self._engine.llm_engine.remove_lora(self._before[1])
        self._engine.llm_engine.add_lora(request)
        self._engine.adapter = request
        self._engine.reset_prefix_cache()

    def _give_server(self, name: str, path: Path) -> None:
        self._ask("load", {"lora_name": name, "lora_path": os.path.abspath(path)})
        self._client.model = name
        if self._before is not None:
            self._ask("unload", {"lora_name": self._before[0]})

    def _ask(self, word: str, body: dict[str, str]) -> None:
        address = f"{self._client.base_url}/v1/{word}_lora_adapter"
        answer = self._client.session.post(address, json=body, timeout=TIMEOUT_S)
        if answer.status_code != 200:
            raise Refused.of(
                f"the vLLM server does not {word} the adapter",
                because=f"{address} answers {answer.status_code}: {answer.text[:500]}",
                fix="a server with --enable-lora, its --max-lora-rank at least lora.r,"
                " VLLM_ALLOW_RUNTIME_LORA_UPDATING=1, that can read the run folder; or generation.weight_sync: full",
            )
