"""The hand-over itself: TRL's tensors through vLLM's `reload_weights`."""

import functools
import os
import tempfile
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from cpu_weights import broken_adapters, broken_images

VARIABLE = "GRPO_TEST_WEIGHTS"


def replace_in(module: ModuleType) -> None:
    """Replaces the part of the hand-over that is in one of the modules that the hook waits for."""
    if module.__name__.endswith(".vllm_images"):
        broken_images.break_in(module)
    elif module.__name__.startswith("grpo_recipes."):
        broken_adapters.break_in(module)
    elif module.__name__.startswith("vllm."):
        runner = module.GPUModelRunner
        runner.reload_weights = _with_tied_head(runner.reload_weights)
    elif module.__name__.endswith("vllm_client"):
        client = module.VLLMClient
        client.init_communicator = _without_group(client.init_communicator)
        client.update_named_params = _through_a_folder
    else:
        generation = module.VLLMGeneration
        generation.sync_weights = _from_memory(generation.sync_weights)


def is_broken() -> bool:
    """Whether the tensors are to be lost. Raises ValueError for a word that nobody knows."""
    word = os.environ.get(VARIABLE, "works")
    if word not in ("works", "broken"):
        raise ValueError(f"{VARIABLE}={word}, known: works, broken")
    return word == "broken"


def _without_group(init_communicator: Any) -> Any:
    """TRL's own checks of the server, which come before it refuses a device without NCCL."""

    @functools.wraps(init_communicator)
    def checked(self: Any, device: Any = 0) -> None:
        try:
            init_communicator(self, device)
        except NotImplementedError:
            if not str(device).startswith("cpu"):  # cpu:0 in one of several processes
                raise

    return checked


def _through_a_folder(self: Any, metadata: Any, named_params: Iterable[tuple[str, Any]]) -> None:
    if is_broken():
        _taken(named_params)
        return
    from safetensors.torch import save_file

    with tempfile.TemporaryDirectory() as folder:
        tensors = {name: tensor.detach().clone().contiguous() for name, tensor in named_params}
        save_file(tensors, Path(folder) / "model.safetensors")
        call = {"method": "reload_weights", "kwargs": {"weights_path": folder}}
        answer = self.session.post(f"{self.base_url}/collective_rpc", json=call)
    if answer.status_code == 404:
        raise RuntimeError("the server has no /collective_rpc: start it with VLLM_SERVER_DEV_MODE=1")
    answer.raise_for_status()


def _from_memory(sync_weights: Any) -> Any:
    @functools.wraps(sync_weights)
    def synchronized(self: Any) -> None:
        if self.mode != "colocate" or self.accelerator.device.type != "cpu":
            sync_weights(self)
        elif is_broken():
            _taken(self._iter_named_params())
        else:
            tensors = ((name, tensor.detach().clone()) for name, tensor in self._iter_named_params())
            self.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": tensors})
            self.llm.reset_prefix_cache()

    return synchronized


def _with_tied_head(reload_weights: Any) -> Any:
    """For a head that shares the embedding's weight: on a CPU it computes with a copy, which a reload leaves as it is.

    Seen: vllm 0.31.0 with tie_word_embeddings, log-probabilities 0.5 off after the embedding had changed.
    """

    @functools.wraps(reload_weights)
    def with_head(self: Any, *given: Any, **named: Any) -> None:
        reload_weights(self, *given, **named)
        head = getattr(self.get_model(), "lm_head", None)
        if self.device.type == "cpu" and self.model_config.hf_config.tie_word_embeddings and head is not None:
            head.quant_method.process_weights_after_loading(head)

    return with_head


def _taken(tensors: Iterable[Any]) -> None:
    """Takes all of them and keeps none: to gather one, all processes have to ask for it."""
    deque(tensors, maxlen=0)
