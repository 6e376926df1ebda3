"""Watches the loss of the first step: what went in, which modules ran, what the model returned."""

import resource
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from grpo_recipes.worker.generation import end_tokens
from grpo_recipes.worker.planned import Plan
from grpo_recipes.worker.proofs.seen import Completion, Completions, Forward, completion
from grpo_recipes.worker.trained_tensors import owners

KIB_PER_GIB = 1024**2


class Witness:
    """Stands before `trainer.compute_loss` until stop() is called; hooks exist only while a loss is computed.

    on_dead_loss: called at once for a loss without a graph, before a backward pass raises.
    """

    def __init__(self, trainer: Any, plan: Plan, on_dead_loss: Callable[[], None]) -> None:
        self.forwards: list[Forward] = []
        self.losses: list[Any] = []
        self.rows: list[Completion] = []
        self.has_tools = False
        self.compute_dtype: str | None = None
        self.ran: set[int] = set()
        self._trainer, self._plan, self._on_dead_loss = trainer, plan, on_dead_loss
        self._owners = owners(trainer.model)
        self._compute_loss = trainer.compute_loss
        trainer.compute_loss = self._watched

    def stop(self) -> None:
        """Gives the trainer its own method back."""
        if self._trainer.__dict__.get("compute_loss") == self._watched:
            del self._trainer.compute_loss

    def due(self) -> set[str]:
        """The trainable tensors whose modules took part in a loss."""
        head = self._trainer.model.get_output_embeddings()  # used by its weight, without a call
        return {name for name, module in self._owners.items() if id(module) in self.ran or module is head}

    def _watched(self, model: Any, inputs: Any, *given: Any, **named: Any) -> Any:
        ids, mask = inputs["completion_ids"], inputs["completion_mask"]
        shapes = (ids.shape[0], inputs["prompt_ids"].shape[1], ids.shape[1])
        handles = self._hooks(shapes)
        try:
            loss = self._compute_loss(model, inputs, *given, **named)
        finally:
            for handle in handles:
                handle.remove()
        self.losses.append(loss.detach())
        self.has_tools |= "tool_mask" in inputs
        self._note_rows(ids.tolist(), mask.tolist())
        if not loss.requires_grad:
            self._on_dead_loss()
        return loss

    def _hooks(self, shapes: tuple[int, int, int]) -> list[Any]:
        policy = self._trainer.model
        handles = [module.register_forward_hook(self._note_module) for module in {*self._owners.values()}]
        handles.append(policy.register_forward_hook(lambda _, __, output: self._note_output(shapes, output)))
        linear = next((module for name, module in policy.named_modules() if _is_linear(name, module)), None)
        if linear is not None:
            handles.append(linear.register_forward_hook(self._note_dtype))
        return handles

    def _note_module(self, module: Any, _: Any, __: Any) -> None:
        self.ran.add(id(module))

    def _note_dtype(self, _: Any, __: Any, output: Any) -> None:
        # A 4-bit layer gives back the dtype of its input, also under autocast.
        kind = output.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else output.dtype
        self.compute_dtype = dtype_name(dtype)

    def _note_output(self, shapes: tuple[int, int, int], output: Any) -> None:
        head = self._trainer.model.get_output_embeddings()
        vocabulary = head.out_features if hasattr(head, "out_features") else head.weight.shape[0]
        logits, log_probs = (getattr(output, name, None) for name in ("logits", "log_probs"))
        self.forwards.append(
            Forward(
                *shapes,
                vocabulary,
                None if logits is None else tuple(logits.shape),
                None if log_probs is None else tuple(log_probs.shape),
            )
        )

    def _note_rows(self, ids: list[list[int]], mask: list[list[int]]) -> None:
        tokenizer = getattr(self._trainer.processing_class, "tokenizer", self._trainer.processing_class)
        ends = frozenset([*end_tokens(self._trainer), *self._plan.expect.stop_token_ids])
        find = stop_finder(tokenizer, tuple(self._plan.expect.stop))
        self.rows += [
            completion(row, ones, ends, tokenizer.pad_token_id, find) for row, ones in zip(ids, mask, strict=True)
        ]

    def completions(self) -> Completions:
        """The completions of all micro-batches so far."""
        arguments = self._trainer.args
        whole = len(self.rows) == arguments.steps_per_generation * arguments.per_device_train_batch_size
        logged = getattr(self._trainer, "_metrics", {}).get("train", {}).get("completions/clipped_ratio")
        return Completions(
            rows=tuple(self.rows),
            limit=arguments.max_completion_length,
            tools=self.has_tools,
            masked=bool(arguments.mask_truncated_completions),
            clipped_ratio=float(logged[-1]) if logged and whole else None,
        )


def stop_finder(tokenizer: Any, stop: tuple[str, ...]) -> Callable[[Sequence[int]], int | None]:
    """A function from tokens to how many of them there are up to the one that completes the first stop text."""

    def has_stop(ids: Sequence[int]) -> bool:
        text = tokenizer.decode(ids)
        return any(each in text for each in stop)

    def find(ids: Sequence[int]) -> int | None:
        if not stop or not has_stop(ids):
            return None
        return bisect_left(range(len(ids) + 1), True, key=lambda count: has_stop(ids[:count]))

    return find


def dtype_name(dtype: Any) -> str:
    """ "bfloat16" for torch.bfloat16."""
    return str(dtype).removeprefix("torch.")


def peak_memory() -> tuple[float, float | None]:
    """Peaks of this process in GiB: resident, and of its GPU, None without one."""
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_PER_GIB
    return resident, torch.cuda.max_memory_allocated() / 1024**3 if torch.cuda.is_available() else None


def _is_linear(name: str, module: Any) -> bool:
    """Whether a module is a linear layer of the model itself, not of an adapter."""
    return isinstance(module, torch.nn.Linear | Conv1D) and "lora_" not in name
