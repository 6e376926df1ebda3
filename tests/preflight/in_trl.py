"""Asks the installed TRL what preflight says of it: one process, a JSON object on the last line of stdout.

in_trl.py MODEL FOLDER
"""

import json
import math
import sys

import torch
from datasets import Dataset
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer
from trl.data_utils import is_conversational
from trl.trainer.grpo_trainer import RepeatSampler

ANSWERS = {
    "numbers": lambda n: [1.0, *[0.0] * (n - 1)],
    "None for one": lambda n: [None, *[1.0] * (n - 1)],
    "booleans and whole numbers": lambda n: [True, 2, *[0.5] * (n - 2)],
    "tensors": lambda n: [torch.tensor(float(i)) for i in range(n)],
    "one tensor": lambda n: torch.arange(n),
    "a generator": lambda n: (float(i) for i in range(n)),
    "one number": lambda n: 0.5,
    "text": lambda n: "1" * n,
    "words": lambda n: ["1"] * n,
    "too few": lambda n: [1.0] * (n - 1),
    "lists": lambda n: [[1.0], [2.0]] * (n // 2),
    "maps": lambda n: [{"score": 1.0}] * n,
    "nothing": lambda n: None,
}


def trainer(model: str, folder: str, rows: int, reward, tokenizer=None, **more) -> GRPOTrainer:
    keywords = {"per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 4, **more}
    return GRPOTrainer(
        model=model,
        reward_funcs=reward,
        args=GRPOConfig(output_dir=folder, report_to=[], use_cpu=True, logging_steps=1, save_strategy="no", **keywords),
        train_dataset=Dataset.from_list(
            [{"prompt": [{"role": "user", "content": f"{10 + i}+11="}], "solution": str(21 + i)} for i in range(rows)]
        ),
        processing_class=tokenizer or AutoTokenizer.from_pretrained(model),
    )


def steps(model: str, folder: str, rows: int, **more) -> int | str:
    """Optimizer steps of a whole training, or the exception that it ends with."""
    made = trainer(model, folder, rows, lambda completions, **_: [float(i) for i in range(len(completions))], **more)
    try:
        made.train()
    except ValueError as problem:
        return f"ValueError: {problem}"
    return made.state.global_step


def taken(model: str, folder: str) -> dict[str, object]:
    """For each kind of answer what TRL makes of it: the numbers, or "raises"."""
    names: list[str] = []
    kind = ""

    def reward(**given):
        names[:] = list(given)
        return ANSWERS[kind](len(given["completions"]))

    made = trainer(model, folder, 4, reward)
    found: dict[str, object] = {}
    prompts = [[{"role": "user", "content": "1+1="}]] * 8
    completions = [[{"role": "assistant", "content": "2"}]] * 8
    for kind in ANSWERS:
        try:
            values = made._calculate_rewards(
                [{"prompt": p, "solution": "2"} for p in prompts], prompts, completions, [[1]] * 8
            )
            found[kind] = [None if math.isnan(value) else value for value in values[:, 0].tolist()]
        except Exception:
            found[kind] = "raises"
    return {"answers": found, "names": names}


def gradient(model: str, folder: str, worst: float) -> float:
    """The norm of the first gradient when one completion of each group gets `worst`, the others 1, 2 and 3."""

    def reward(completions, **_):
        return [float(place % 4) if place % 4 else worst for place in range(len(completions))]

    made = trainer(model, folder, 4, reward, max_steps=1)
    made.train()
    return float(made.state.log_history[0]["grad_norm"])


def null_prompt(model: str, folder: str) -> str:
    """The exception of a generation one of whose two prompts is null."""
    made = trainer(model, folder, 2, lambda completions, **_: [0.0 for _ in completions])
    rows = [{"prompt": [{"role": "user", "content": "1+1="}]}, {"prompt": None}]
    try:
        made._generate_and_score_completions([row for row in rows for _ in range(4)])
    except Exception as problem:
        return type(problem).__name__
    return "none"


def without_end(model: str, folder: str) -> str:
    """The exception of a trainer whose tokenizer has no end token."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.eos_token = None
    try:
        made = trainer(
            model, folder, 2, lambda completions, **_: [0.0 for _ in completions], max_steps=1, tokenizer=tokenizer
        )
        made.train()
    except Exception as problem:
        return type(problem).__name__
    return "none"


def empty_list_is() -> str:
    try:
        return str(is_conversational({"prompt": []}))
    except IndexError:
        return "IndexError"


def main(model: str, folder: str) -> None:
    lengths = {}
    for rows, size, iterations, micro in ((7, 3, 1, 4), (40, 16, 2, 2), (15, 16, 1, 1), (16, 16, 1, 3)):
        sampler = RepeatSampler(range(rows), mini_repeat_count=2, batch_size=size, repeat_count=iterations * micro)
        lengths[f"{rows} {size} {iterations} {micro}"] = len(list(sampler))
    print(
        json.dumps(
            {
                **taken(model, folder),
                "steps of too few rows": steps(model, folder, 1, max_steps=3),
                "epochs of too few rows": steps(model, folder, 1, num_train_epochs=1),
                "steps of an epoch": steps(
                    model, folder, 5, num_train_epochs=1, gradient_accumulation_steps=1, num_iterations=2
                ),
                "gradients": [gradient(model, folder, worst) for worst in (-5.0, -math.inf)],
                "empty list": empty_list_is(),
                "null prompt": null_prompt(model, folder),
                "no end token": without_end(model, folder),
                "lengths": lengths,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
