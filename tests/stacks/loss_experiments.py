"""What TRL alone makes of completions that are given: the gradient of a loss, and the shapes that it accepts."""

from pathlib import Path
from typing import Any

from raw_trl import PROMPTS, grpo_config, model_folder, trainer

GENERATIONS, LONGEST = 4, 8
LENGTHS = (2, 5, LONGEST, 7)


def _completion(prompt: int, number: int) -> list[int]:
    """Tokens of a completion: letters, and the end token unless it is truncated."""
    length = max(2, LENGTHS[(prompt + number) % len(LENGTHS)] - prompt % 3)  # groups of unequal length
    tokens = [3 + (7 * prompt + 11 * number + 5 * place) % 36 for place in range(length)]
    return tokens if length == LONGEST else [*tokens[:-1], 2]


def _generate_given(model: Any) -> None:
    """Lets the model generate the same completions for the same prompts on every release."""
    import torch

    def generate(input_ids: Any, attention_mask: Any, **_: Any) -> Any:
        seen: dict[tuple[int, ...], int] = {}
        rows = []
        for ids, mask in zip(input_ids.tolist(), attention_mask.tolist(), strict=True):
            own = tuple(token for token, is_own in zip(ids, mask, strict=True) if is_own)
            number = seen[own] = seen.get(own, -1) + 1
            tokens = _completion(sum(own), number % GENERATIONS)
            rows.append(ids + tokens + [0] * (LONGEST - len(tokens)))
        return torch.tensor(rows)

    model.generate = generate


def gradient(folder: Path, *, prompts: int = 4, **arguments: Any) -> dict[str, Any]:
    """The gradient of one generation, summed over its optimizer steps at a learning rate of 0.

    Gives the file of the vector and how many tokens and completions it was made of.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

    kept: list[Any] = []

    class Keep(TrainerCallback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, *_: Any, model: Any, **__: Any) -> None:
            kept.append(torch.cat([tensor.grad.flatten().double() for tensor in model.parameters()]))

    path = str(model_folder(folder))
    model = AutoModelForCausalLM.from_pretrained(path)
    _generate_given(model)
    steps = arguments.pop("optimizer_steps", 1)
    exact = {"learning_rate": 0.0, "max_grad_norm": 1e9, "optim": "sgd", "lr_scheduler_type": "constant"}
    sizes = {"num_generations": GENERATIONS, "max_completion_length": LONGEST, "max_steps": steps}
    config = grpo_config(folder, **{**exact, **sizes, **arguments})
    tokenizer = AutoTokenizer.from_pretrained(path)
    made = trainer(config, model, prompts=PROMPTS[:prompts], processing_class=tokenizer, callbacks=[Keep()])
    made.train()
    assert len(kept) == steps
    torch.save(sum(kept), folder / "gradient.pt")
    return {"file": str(folder / "gradient.pt"), "completions": prompts * GENERATIONS}


def accepted(folder: Path, *, shapes: list[tuple[int, dict[str, Any]]]) -> list[str]:
    """For each number of processes and its arguments "" when GRPOConfig and GRPOTrainer take them, else the error.

    The processes are what TrainingArguments and accelerate are told; there is one.
    """
    from accelerate import Accelerator
    from transformers import TrainingArguments

    found = []
    for processes, arguments in shapes:
        TrainingArguments.world_size = property(lambda self, size=processes: size)
        Accelerator.num_processes = property(lambda self, size=processes: size)
        try:
            trainer(grpo_config(folder, **arguments), str(model_folder(folder)))
        except (ValueError, TypeError) as error:
            found.append(f"{type(error).__name__}: {error}")
        else:
            found.append("")
    return found


def attribute(folder: Path, *, name: str) -> dict[str, Any]:
    """A value of a GRPOConfig that says nothing about it, "absent" where it has no such field."""
    return {"value": getattr(grpo_config(folder), name, "absent")}
