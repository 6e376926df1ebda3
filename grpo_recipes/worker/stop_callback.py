"""The training ends with a checkpoint when any rank was asked to stop."""

from typing import Any

import torch
from transformers import TrainerCallback

from grpo_recipes.worker.stop_request import StopRequest


class StopCallback(TrainerCallback):  # type: ignore[misc]
    """Ends the training with a checkpoint after the step in which any rank was asked to stop."""

    def __init__(self, request: StopRequest, accelerator: Any) -> None:
        self.interrupted = False
        self._request = request
        self._accelerator = accelerator

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Asks all ranks; a signal that comes in the very last step changes nothing."""
        if self._any_rank_asked() and state.global_step < state.max_steps:
            self.interrupted = True
            control.should_save = True
            control.should_training_stop = True
        return control

    def _any_rank_asked(self) -> bool:
        if self._accelerator.num_processes == 1:
            return self._request.requested
        asked = torch.tensor([int(self._request.requested)], device=self._accelerator.device)
        torch.distributed.all_reduce(asked, op=torch.distributed.ReduceOp.MAX)
        return bool(asked.item())
