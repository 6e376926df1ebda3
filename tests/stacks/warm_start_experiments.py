"""Trains a run folder with a warm start, and the same rows with TRL's SFTTrainer.

`python warm_start_experiments.py RUN` prints how far they are apart.
"""

import copy
import json
import sys
from pathlib import Path
from typing import Any


def compared(folder: Path, *, run_folder: str) -> dict[str, Any]:
    """The losses of both, and the largest differences of the first gradient, the losses and the weights at the end.

    gradient: relative to its largest number; weights: as far as they moved. is_as_generated: whether all prompts of
    GRPO's completions are those of gold rows.
    """

    from grpo_recipes.worker._shared.planned import read_plan
    from grpo_recipes.worker.callbacks import warm_start
    from grpo_recipes.worker.run import train
    from grpo_recipes.worker.trainer.observed import ObservedTrainer

    rows: list[Any] = []
    start: dict[str, Any] = {}
    gradient: dict[str, Any] = {}
    end: dict[str, Any] = {}
    prompts: set[tuple[int, ...]] = set()
    summed_loss, begin_anew = warm_start.summed_loss, warm_start.begin_anew
    backward, compute_loss = warm_start.WarmStartCallback._backward, ObservedTrainer.compute_loss

    def recorded_loss(trainer: Any, model: Any, part: list[Any]) -> Any:
        if not start:
            start.update(_trained(trainer.model))
        rows.extend(part)
        return summed_loss(trainer, model, part)

    def recorded_backward(self: Any, *given: Any, **named: Any) -> Any:
        loss = backward(self, *given, **named)
        if self.step == 0:
            gradient.update(_gradients(self._trainer.model))
        return loss

    def recorded_end(trainer: Any) -> None:
        end.update(_trained(trainer.model))
        begin_anew(trainer)

    def recorded_prompts(self: Any, model: Any, inputs: Any, *given: Any, **named: Any) -> Any:
        for ids, mask in zip(inputs["prompt_ids"], inputs["prompt_mask"], strict=True):
            prompts.add(tuple(ids[mask.bool()].tolist()))
        return compute_loss(self, model, inputs, *given, **named)

    warm_start.summed_loss, warm_start.begin_anew = recorded_loss, recorded_end
    warm_start.WarmStartCallback._backward, ObservedTrainer.compute_loss = recorded_backward, recorded_prompts
    run = Path(run_folder)
    exit_code = train(run, resume=False)
    if exit_code:
        return {"exit_code": exit_code}
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    own = [line["loss"] for line in lines if line["event"] == "warm_start"]
    losses, sft_gradient, sft_end = _train_with_sft(folder, read_plan(run), rows, start)
    moved = max(float((end[name] - start[name]).abs().max()) for name in start)
    return {
        "exit_code": exit_code,
        "own": own,
        "sft": losses,
        "losses": max(abs(a - b) for a, b in zip(own, losses, strict=True)),
        "gradient": _apart(gradient, sft_gradient) / max(float(each.abs().max()) for each in gradient.values()),
        "weights": _apart(end, sft_end) / moved,
        "tensors": len(gradient),
        "is_as_generated": bool(prompts) and prompts <= {tuple(row.prompt) for row in rows},
        "prompts": len(prompts),
        "release": __import__("trl").__version__,
        "dtype": str(next(iter(end.values())).dtype).removeprefix("torch."),
    }


def _train_with_sft(folder: Path, plan: Any, rows: list[Any], start: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The losses, the first gradient and the last weights of SFTTrainer."""
    from datasets import Dataset
    from peft import LoraConfig, get_peft_model
    from torch.utils.data import SequentialSampler
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    gradient: dict[str, Any] = {}
    losses: list[float] = []

    class InOrder(SFTTrainer):  # type: ignore[misc]
        def _get_train_sampler(self, *_: Any) -> Any:
            return SequentialSampler(self.train_dataset)

        def training_step(self, *given: Any, **named: Any) -> Any:
            loss = super().training_step(*given, **named)
            losses.append(float(loss))
            if self.state.global_step == 0:
                gradient.update(_gradients(self.model))
            return loss

    arguments, how = plan.arguments.GRPOConfig, plan.warm_start
    same = ("per_device_train_batch_size", "gradient_accumulation_steps", "seed", "use_cpu", "optim", "weight_decay")
    config = SFTConfig(
        output_dir=str(folder / "sft"),
        max_steps=how.steps,
        learning_rate=how.learning_rate,
        lr_scheduler_type="constant_with_warmup" if how.lr_scheduler_type == "constant" else how.lr_scheduler_type,
        warmup_steps=how.warmup_steps,
        completion_only_loss=True,
        packing=False,
        max_length=None,
        bf16=False,
        gradient_checkpointing=False,
        report_to=[],
        save_strategy="no",
        **{name: arguments[name] for name in same if name in arguments},
    )
    model = AutoModelForCausalLM.from_pretrained(plan.model.path)
    if plan.arguments.LoraConfig is not None:
        model = get_peft_model(model, LoraConfig(**plan.arguments.LoraConfig))
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameter.data.copy_(start[name])
    tokens = [
        {
            "input_ids": [*row.prompt, *row.completion],
            "completion_mask": [0] * len(row.prompt) + [1] * len(row.completion),
        }
        for row in rows
    ]
    trainer = InOrder(
        model=model,
        args=config,
        train_dataset=Dataset.from_list(tokens),
        processing_class=AutoTokenizer.from_pretrained(plan.model.path),
    )
    trainer.train()
    parts = config.gradient_accumulation_steps
    return [sum(losses[at : at + parts]) for at in range(0, len(losses), parts)], gradient, _trained(trainer.model)


def _trained(model: Any) -> dict[str, Any]:
    return {name: copy.deepcopy(each.detach()) for name, each in model.named_parameters() if each.requires_grad}


def _gradients(model: Any) -> dict[str, Any]:
    return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}


def _apart(first: dict[str, Any], second: dict[str, Any]) -> float:
    assert first.keys() == second.keys() and first
    return max(float((first[name] - second[name]).abs().max()) for name in first)


if __name__ == "__main__":
    result = compared(Path(sys.argv[1]).parent, run_folder=sys.argv[1])
    print(json.dumps(result))
