"""Trains on gold answers before the first generation, with the model, adapter and optimizer of the run.

It runs when training begins: by then everything is wrapped, sharded and loaded from a checkpoint, and GRPO has taken no
step. The loss is the mean over all completion tokens of an optimizer step, whatever the processes and micro-batches.
Afterwards the optimizer is as new and has GRPO's learning rate, as if the model had been trained by a run before this.
"""

import math
import time
from contextlib import nullcontext
from typing import Any

import torch
from accelerate.utils import DistributedType
from torch.nn.functional import cross_entropy
from transformers import TrainerCallback, get_scheduler

from grpo_recipes.contract.event_words import warm_start_line
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import WarmStart
from grpo_recipes.worker._shared.library import base_model, gather_from_all, logits_keyword, on_any, seed_of
from grpo_recipes.worker._shared.metrics import MetricsLog
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.callbacks.evaluation_callback import EvaluationCallback
from grpo_recipes.worker.callbacks.guard_callback import GuardCallback
from grpo_recipes.worker.callbacks.progress import InterruptionCallback, Stopped
from grpo_recipes.worker.data.gold_rows import GoldRow, GoldRows, draw_gold_rows, rows_per_step
from grpo_recipes.worker.ends.ends import ends_of
from grpo_recipes.worker.memory.phase_peaks import PhasePeaks
from grpo_recipes.worker.model.seeds import seed_everything
from grpo_recipes.worker.model.trained_tensors import own_part, trainable

_IGNORED = -100


def warm_start_callback(
    training: Any, evaluation: EvaluationCallback | None, guards: GuardCallback
) -> "WarmStartCallback | None":
    """Returns the callback with its rows, None without a warm start. training: a Training whose rows are prepared."""
    plan, record = training.plan, training.record
    if plan.warm_start is None:
        return None
    ends, needed = ends_of(training.trainer, plan), plan.warm_start.steps * rows_per_step(plan)
    gold = draw_gold_rows(training.gold, plan, training.tokens, ends, training.prefill, needed)
    if training.log is not None and (left_out := gold.left_out_text()):
        print(left_out, flush=True)
    read = {"rows": len(gold.rows) + len(gold.left_out), "left_out": len(gold.left_out)}
    record.update(warm_start={**(record.read().get("warm_start") or {}), **read})
    log, stop, peaks = training.log, training.stop, training.peaks
    return WarmStartCallback(training.trainer, plan, gold, record, log, stop, peaks, guards, evaluation)


class WarmStartCallback(TrainerCallback):  # type: ignore[misc]
    """Takes the supervised steps, and evaluates after them. step: those that are done, which a checkpoint keeps.

    seconds: spent on them, without evaluations. It comes after the callbacks that restore a run, and before its proofs.
    """

    def __init__(
        self,
        trainer: Any,
        plan: Plan,
        rows: GoldRows,
        record: Record,
        log: MetricsLog | None,
        stop: InterruptionCallback,
        peaks: PhasePeaks,
        guards: GuardCallback,
        evaluation: EvaluationCallback | None,
    ) -> None:
        assert plan.warm_start is not None
        self.step, self.seconds = 0, 0.0
        self._trainer, self._how, self._rows = trainer, plan.warm_start, rows
        self._record, self._log, self._stop, self._peaks, self._guards = record, log, stop, peaks, guards
        self._evaluation = evaluation

    def restore(self, step: int) -> None:
        """Continues after a step that a checkpoint has."""
        self.step = step

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Takes the steps that are left. Raises Stopped, with a checkpoint, if any process was asked to stop."""
        if state.global_step > 0:
            return
        trainer, how = self._trainer, self._how
        rates = rates_of(how)
        with self._peaks.during("warm_start"):
            while self.step < how.steps:
                began = time.perf_counter()
                self._guards.still("a step of the warm start")
                self._train(rates[self.step])
                self.seconds += time.perf_counter() - began
                is_asked = self._stop.is_asked()
                is_due = args.save_strategy == "steps" and (self.step == how.steps or self.step % state.save_steps == 0)
                if is_asked or is_due:
                    trainer.seams.whole("checkpoint is saved")(trainer.model, None)
                    trainer.callback_handler.on_save(args, state, control)
                if is_asked:
                    raise Stopped
            begin_anew(trainer)
        if self._evaluation is not None:
            self._evaluation.evaluate_warm_start()

    def _train(self, rate: float) -> None:
        """Takes one optimizer step, and logs it."""
        trainer, accelerator = self._trainer, self._trainer.accelerator
        seed_everything(seed_of(f"{trainer.args.seed} warm start {self.step} {accelerator.process_index}"))
        size, count = trainer.args.per_device_train_batch_size, trainer.args.gradient_accumulation_steps
        rank, world, most = accelerator.process_index, accelerator.num_processes, trainer.args.max_grad_norm
        rows = self._rows.batch(self.step, size * world * count)
        parts = [rows[(part * world + rank) * size :][:size] for part in range(count)]
        tokens = sum(len(row.completion) for row in rows)
        model = trainer.model_wrapped
        model.train()
        set_rates(trainer.optimizer, [rate] * len(trainer.optimizer.param_groups))
        loss = sum(
            self._backward(model, part, tokens, is_last=number == count - 1) for number, part in enumerate(parts)
        )
        norm = accelerator.clip_grad_norm_(model.parameters(), most) if most > 0 else None
        loss = math.fsum(gather_from_all(trainer, [float(loss)]))
        self.step += 1
        if not math.isfinite(loss):
            raise _useless(f"the loss of step {self.step} of the warm start is {loss}")
        trainer.optimizer.step()
        model.zero_grad()
        if self.step == self._how.steps:
            trained = [own_part(parameter) for parameter in trainable(model).values()]
            if on_any(trainer, not all(bool(part.isfinite().all()) for part in trained))[0]:
                raise _useless(f"weights are no numbers after step {self.step} of the warm start")
        figures = {"loss": loss, "learning_rate": rate, "tokens": tokens}
        figures |= {} if norm is None else {"grad_norm": float(norm)}
        self._tell(figures)

    def _backward(self, model: Any, rows: list[GoldRow], tokens: int, *, is_last: bool) -> Any:
        """Adds the gradient of a micro-batch; returns its share of the loss.

        accelerate and DeepSpeed divide a loss by the micro-batches of a step, and average gradients over processes.
        """
        trainer, accelerator = self._trainer, self._trainer.accelerator
        is_deepspeed = accelerator.distributed_type == DistributedType.DEEPSPEED
        divided = (model if is_deepspeed else accelerator).gradient_accumulation_steps
        factor = (divided() if is_deepspeed else divided) * accelerator.num_processes
        accelerator.gradient_state._set_sync_gradients(is_last)
        waits = nullcontext() if is_last or is_deepspeed else accelerator.no_sync(model)
        with waits:
            with trainer.compute_loss_context_manager():
                loss = summed_loss(trainer, model, rows) / tokens
            accelerator.backward(loss * factor)
        return loss.detach()

    def _tell(self, figures: dict[str, Any]) -> None:
        if self._log is None:
            return
        values = {"warm_step": self.step, "of": self._how.steps, **figures}
        self._log.write("warm_start", 0, **values)
        if line := warm_start_line(values):
            print(line, flush=True)
        known = self._record.read().get("warm_start") or {}
        first = figures["loss"] if self.step == 1 else known.get("first_loss")
        more = {"step": self.step, "first_loss": first, "last_loss": figures["loss"], "seconds": round(self.seconds, 3)}
        self._record.note(warm_start={**known, **more})


def _useless(what: str) -> Refused:
    """Returns the refusal of weights that cannot be trained further, before a checkpoint has them."""
    return Refused.of(
        what,
        because="nothing that is trained or saved from here on would be of use",
        fix="a smaller warm_start.learning_rate, or model.dtype: float32",
    )


def rates_of(how: WarmStart) -> list[float]:
    """Returns the learning rate of each step, by the schedules of transformers."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], lr=how.learning_rate)
    name = "constant_with_warmup" if how.lr_scheduler_type == "constant" else how.lr_scheduler_type
    schedule = get_scheduler(name, optimizer, how.warmup_steps, how.steps)
    return [how.learning_rate * schedule.lr_lambdas[0](step) for step in range(how.steps)]


def set_rates(optimizer: Any, rates: list[float]) -> None:
    """Sets the learning rate of each group of parameters."""
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


def begin_anew(trainer: Any) -> None:
    """Makes the optimizer forget the warm start, with the first learning rate of GRPO, and vLLM ask for the weights.

    torch's optimizers, and those of bitsandbytes and DeepSpeed, make the state of a parameter when they first need it.
    """
    optimizer = trainer.optimizer
    while hasattr(optimizer, "optimizer"):  # accelerate's and DeepSpeed's wrappers
        optimizer = optimizer.optimizer
    optimizer.state.clear()
    for group in optimizer.param_groups:
        group.pop("step", None)  # DeepSpeed's FusedAdam counts there
    set_rates(trainer.optimizer, trainer.lr_scheduler.get_last_lr())
    if trainer.args.use_vllm and trainer.seams.value("_last_loaded_step") is not None:
        trainer._last_loaded_step = -1


def summed_loss(trainer: Any, model: Any, rows: list[GoldRow]) -> Any:
    """Returns the summed cross-entropy of the completions' tokens in float32, at temperature 1.

    Rows are padded on the right, so that each token has its own position in every model.
    """
    device, pad = trainer.accelerator.device, trainer.processing_class
    pad = getattr(pad, "tokenizer", pad).pad_token_id
    longest, first = max(len(row.prompt) + len(row.completion) for row in rows), min(len(row.prompt) for row in rows)
    ids = torch.full((len(rows), longest), pad, device=device)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, _IGNORED)
    for index, row in enumerate(rows):
        end = len(row.prompt) + len(row.completion)
        ids[index, :end] = torch.tensor([*row.prompt, *row.completion], device=device)
        mask[index, :end] = 1
        labels[index, len(row.prompt) : end] = ids[index, len(row.prompt) : end]
    known = logits_keyword(base_model(trainer, model))
    count = longest - first + 1  # the logits that predict tokens from the first completion on, and one after the last
    limit = {} if known is None else {known: count}
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False, **limit).logits[:, -count:-1]
    return cross_entropy(
        logits.float().flatten(0, 1), labels[:, first:].flatten(), ignore_index=_IGNORED, reduction="sum"
    )
