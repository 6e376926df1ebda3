"""Saves state that transformers does not save into each checkpoint, and restores it.

Between two logged lines: the summed loss, the step of the last line, and TRL's figures for the next one. From the
guards: their alarms, and the state of no_movement. With sync_ref_model: the reference's weights, which follow the
policy's. Source: trl 0.14.0 to 1.16.0, transformers 4.48.3 to 5.23.0.
"""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import PreTrainedModel, TrainerCallback

from grpo_recipes.contract.integrity.checkpoints import step_of
from grpo_recipes.contract.run_record import OTHERS, WARM_STEP
from grpo_recipes.worker._shared.metrics import MetricsLog, place_in_warm_start
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.callbacks.best_evaluation import BEST, CHOSEN_FROM, SINCE
from grpo_recipes.worker.callbacks.evaluation_callback import Trained
from grpo_recipes.worker.callbacks.guard_callback import GuardCallback
from grpo_recipes.worker.checkpoints.checkpoint import is_whole
from grpo_recipes.worker.model.trained_tensors import local, zero_stage


def keep_dtypes(trainer: Any) -> None:
    """Makes loading a checkpoint find all weights, and keep the dtype of the trained tensors.

    PEFT loads an existing adapter in float32 whatever its dtype, including the adapter of a quantized model, which TRL
    trains in bfloat16. Source: peft's tuners_utils.py, `cast_adapter_dtype`.
    """

    def load_as_it_was(load: Callable[..., Any], *given: Any, **named: Any) -> Any:
        before = {name: tensor.dtype for name, tensor in trainer.model.named_parameters() if tensor.requires_grad}
        loaded = load(*given, **named)
        _load_renamed(trainer, Path(given[0]))
        for name, dtype in before.items():
            parameter = trainer.model.get_parameter(name)
            parameter.data = parameter.data.to(dtype)
        return loaded

    trainer.seams.change("checkpoint is loaded", "dtypes", load_as_it_was)


def _load_renamed(trainer: Any, checkpoint: Path) -> None:
    """Loads a checkpoint whose weights have other names than in memory, as those of LLaVA-NeXT and Gemma 3.

    The trainer leaves out such weights with a warning, and would train on from the first ones. Source:
    transformers' trainer.py (`_load_from_checkpoint`), where an adapter, FSDP and DeepSpeed have their own ways.
    """
    files = sorted(checkpoint.glob("model*.safetensors"))
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled or not isinstance(trainer.model, PreTrainedModel):
        return
    names = set[str]()
    for file in files:
        with safe_open(file, "pt") as opened:
            names.update(opened.keys())
    if names - trainer.model.state_dict().keys():
        trainer.model.load_state_dict(type(trainer.model).from_pretrained(checkpoint).state_dict())


class RunState(TrainerCallback):  # type: ignore[misc]
    """Adds its files to each checkpoint on every rank, and restores them on resume.

    It runs after the guards, whose state it restores. warm_start: its callback, None without one.
    """

    def __init__(
        self,
        trainer: Any,
        record: Record,
        guards: GuardCallback,
        log: MetricsLog | None,
        checkpoint: Path | None,
        warm_start: Any,
    ) -> None:
        self._trainer, self._record, self._guards = trainer, record, guards
        self._metrics_log, self._checkpoint, self._warm_start = log, checkpoint, warm_start
        self._loss: Any = 0.0
        trainer.seams.change("step ends", "summed loss", self._keep_loss)

    def _keep_loss(self, log_and_save: Callable[..., Any], loss: Any, *given: Any, **named: Any) -> Any:
        self._loss = loss  # zeroed in place when a line is logged
        return log_and_save(loss, *given, **named)

    def save(self, folder: Path) -> None:
        """Adds the state to a checkpoint, before the checkpoint becomes valid."""
        trainer = self._trainer
        content = {
            "loss": float(self._loss),
            "logged_step": trainer._globalstep_last_logged,
            "tokens": trainer.seams.value("_total_train_tokens"),
            "figures": {name: [_number(value) for value in values] for name, values in trainer.seams.figures().items()},
            "guards": self._guards.memory(),
        }
        if self._warm_start is not None:
            content[WARM_STEP] = self._warm_start.step
        if self._metrics_log is not None:
            self._metrics_log.sync()
            content["spoken"], content["evaluation"] = self._record.guards(), self._record.evaluation()
        _file(folder, trainer).write_text(json.dumps(content), encoding="utf-8")
        if getattr(trainer.args, "sync_ref_model", False):
            _save_reference(trainer, folder)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Restores the state. Raises Trained if the training had already ended."""
        if self._checkpoint is None:
            return
        trainer, file = self._trainer, _file(self._checkpoint, self._trainer)
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            trainer._globalstep_last_logged = content["logged_step"]
            trainer.seams.figures().update(content["figures"])
            if content["tokens"] is not None:
                trainer._total_train_tokens = content["tokens"]
            self._guards.remember(content["guards"])
            if self._warm_start is not None and state.global_step == 0:
                self._warm_start.restore(int(content[WARM_STEP]))
            _add_to_next_loss(trainer, float(content["loss"]))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as problem:
            raise _not_ours(file, f"{type(problem).__name__}: {problem}") from problem
        if getattr(args, "sync_ref_model", False):
            _load_reference(trainer, self._checkpoint)
        if state.global_step >= state.max_steps:
            raise Trained


def record_at(checkpoint: Path, folder: Path, *, keeps_best: bool) -> dict[str, Any]:
    """Returns run.json's guards and evaluations at the time of a checkpoint, for a run in `folder`.

    The best evaluation is dropped if it belongs to the run that this one extends. It is also dropped, with a line in
    the log, if its checkpoint should have been kept but was removed or damaged.
    """
    file = checkpoint / "grpo_run_0.json"
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        guards, evaluation = list(content["spoken"]), dict(content["evaluation"])
        step = evaluation.get(BEST, {}).get("step")
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise _not_ours(file, f"{type(problem).__name__}: {problem}") from problem
    is_own, best = checkpoint.is_relative_to(folder), checkpoint.with_name(f"checkpoint-{step}")
    is_lost = keeps_best and step is not None and not is_whole(best)
    if is_lost or not is_own:
        if is_own:
            print(
                f"{best.name} had the best evaluation, but is incomplete: only later evaluations count",
                flush=True,
            )
        others = {
            name: {key: value for key, value in moments.items() if key != BEST}
            for name, moments in evaluation.get(OTHERS, {}).items()
        }
        evaluation = {key: value for key, value in evaluation.items() if key not in (BEST, SINCE, CHOSEN_FROM, OTHERS)}
        evaluation |= {OTHERS: others} if others else {}
    return {"guards": guards, "evaluation": evaluation}


def place_at(checkpoint: Path) -> float:
    """Returns the step of a checkpoint, and for one in the warm start its place there, for MetricsLog."""
    file = checkpoint / "grpo_run_0.json"
    if (step := step_of(checkpoint)) > 0:
        return step
    try:
        return place_in_warm_start(int(json.loads(file.read_text(encoding="utf-8"))[WARM_STEP]))
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise _not_ours(file, f"{type(problem).__name__}: {problem}") from problem


def _not_ours(file: Path, because: str) -> Refused:
    """Returns the refusal of a file without a digest that grpo-run did not write."""
    return Refused.of(
        f"{file.parent.name}: {file.name} was not written by grpo-run",
        because=because,
        fix=f"remove {file.parent} to resume from the checkpoint before it",
    )


def _file(folder: Path, trainer: Any) -> Path:
    return folder / f"grpo_run_{trainer.accelerator.process_index}.json"


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value


def _add_to_next_loss(trainer: Any, loss: float) -> None:
    """Adds the loss since the last line to that of the next batch, in the order of an uninterrupted run."""
    remove: list[Callable[[], None]] = []

    def first(step: Callable[..., Any], *given: Any, **named: Any) -> Any:
        remove[0]()
        return step(*given, **named) + loss

    remove.append(trainer.seams.change("micro-batch is trained", "loss before the checkpoint", first))


def _save_reference(trainer: Any, folder: Path) -> None:
    """Writes the reference's weights: whole on the first rank, or each rank's part if FSDP shards them."""
    parameters = dict(trainer.ref_model.named_parameters())
    with _gather(trainer, parameters, writes=False):
        tensors = {name: local(parameter.detach()).cpu() for name, parameter in parameters.items()}
        if trainer.is_world_process_zero() or _is_sharded(parameters):
            torch.save(tensors, _reference_file(trainer, folder, parameters))


def _load_reference(trainer: Any, folder: Path) -> None:
    parameters = dict(trainer.ref_model.named_parameters())
    file = _reference_file(trainer, folder, parameters)
    try:
        tensors = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as problem:  # its type depends on the damage
        raise _not_ours(file, f"{type(problem).__name__}: {problem}") from problem
    with _gather(trainer, parameters, writes=True), torch.no_grad():
        wrong = [name for name, parameter in parameters.items() if not _fits(parameter, tensors, name)]
        if wrong:
            raise _not_ours(file, f"{wrong[0]} of the model is missing or has a different shape")
        for name, parameter in parameters.items():
            local(parameter.detach()).copy_(tensors[name])


def _fits(parameter: Any, tensors: Any, name: str) -> bool:
    tensor = tensors.get(name) if isinstance(tensors, dict) else None
    return isinstance(tensor, torch.Tensor) and tensor.shape == local(parameter.detach()).shape


def _reference_file(trainer: Any, folder: Path, parameters: dict[str, Any]) -> Path:
    rank = trainer.accelerator.process_index if _is_sharded(parameters) else 0
    return folder / f"reference_{rank}.pt"


def _is_sharded(parameters: dict[str, Any]) -> bool:
    return any(hasattr(parameter, "to_local") for parameter in parameters.values())


def _gather(trainer: Any, parameters: dict[str, Any], *, writes: bool) -> Any:
    """Returns a context manager with whole weights, also under ZeRO-3."""
    if zero_stage(trainer) != 3:
        return nullcontext()
    import deepspeed

    return deepspeed.zero.GatheredParameters(list(parameters.values()), modifier_rank=0 if writes else None)
