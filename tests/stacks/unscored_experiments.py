"""The gradient of a step with missing rewards, and the one that the rewards that exist give."""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from raw_trl import grpo_config, model_folder

SIZE, LONGEST = 4, 6
PROMPTS = ["2+3=", "4+5=7", "1+1="]
# By prompt and completion: two functions' rewards.
REWARDS: dict[str, list[tuple[float | None, float | None]]] = {
    "some": [(1.0, 0.5), (None, None), (0.25, None), (0.0, 1.0)],
    "one": [(None, None), (None, None), (0.75, None), (None, None)],
    "all": [(0.5, 0.0), (1.0, 0.0), (0.0, 0.25), (0.25, 1.0)],
}
WEIGHTS = [1.0, 0.5]


def _completion(prompt: int, row: int) -> list[int]:
    length = (3, LONGEST, 4, 5)[row]
    return [3 + (7 * prompt + 11 * row + 5 * place) % 36 for place in range(length - 1)] + [2]


def _advantages(scaling: Any, is_first_normalized: bool) -> list[float]:
    """What TRL 1.16 defines, in float64 and without tensors."""

    def scaled(values: list[float | None]) -> list[float | None]:
        known = [value for value in values if value is not None]
        if len(known) < 2:
            return [None] * len(values)
        mean, deviation = statistics.fmean(known), statistics.stdev(known)
        return [None if value is None else (value - mean) / (deviation + 1e-4) for value in values]

    def total(pair: Any, is_scored: bool) -> float | None:
        return sum(w * v for w, v in zip(WEIGHTS, pair, strict=True) if v is not None) if is_scored else None

    groups = []
    for group in REWARDS.values():
        pairs = list(zip(*(scaled(list(column)) for column in zip(*group, strict=True)), strict=True))
        pairs = pairs if is_first_normalized else group
        groups.append([total(pair, set(one) != {None}) for pair, one in zip(pairs, group, strict=True)])
    of_all = [value for group in groups for value in group]
    if is_first_normalized:
        return [value or 0.0 for value in scaled(of_all)]
    known = [value for value in of_all if value is not None]
    found: list[float | None] = []
    for group in groups:
        means = [value for value in group if value is not None]
        apart = [None if value is None else value - statistics.fmean(means) for value in group]
        deviation = statistics.stdev(known) if scaling == "batch" else None
        if scaling in (False, "none"):
            found += apart
        elif deviation is not None:
            found += [None if value is None else value / (deviation + 1e-4) for value in apart]
        else:
            found += scaled(group)
    return [value or 0.0 for value in found]


def trained(folder: Path, *, shim: bool, **arguments: Any) -> dict[str, Any]:
    """Trains a step; gives how far its gradient is from the expected one, its relative length, and the figures."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

    from grpo_recipes.contract.plan import Reward
    from grpo_recipes.worker._shared.equal_rewards import count_equal_groups
    from grpo_recipes.worker.shims import unscored_completions
    from grpo_recipes.worker.trainer.observed import ObservedTrainer
    from grpo_recipes.worker.user_code.failed_completions import leave_failed_out

    folder.mkdir(exist_ok=True, parents=True)
    path = str(model_folder(folder))
    model, tokenizer = AutoModelForCausalLM.from_pretrained(path), AutoTokenizer.from_pretrained(path)
    numbers = {tuple(tokenizer(prompt)["input_ids"]): number for number, prompt in enumerate(PROMPTS)}
    texts = {
        tokenizer.decode(_completion(prompt, row), skip_special_tokens=True): REWARDS[name][row]
        for prompt, name in enumerate(REWARDS)
        for row in range(SIZE)
    }
    rows: list[tuple[list[int], int, int]] = []

    def generate(input_ids: Any, attention_mask: Any, **_: Any) -> Any:
        seen = [0] * len(PROMPTS)
        for ids, mask in zip(input_ids, attention_mask.bool(), strict=True):
            own = ids[mask].tolist()
            number = numbers[tuple(own)]
            rows.append((own, number, seen[number]))
            seen[number] += 1
        answers = [_completion(number, row) for _, number, row in rows]
        answers = [answer + [0] * (LONGEST - len(answer)) for answer in answers]
        return torch.cat([input_ids, torch.tensor(answers)], dim=1)

    def reward(place: int) -> Any:
        def function(completions: list[str], **_: Any) -> list[float | None]:
            return [texts[text][place] for text in completions]

        function.__name__ = f"reward_{place}"
        return leave_failed_out(function, Reward("python", function.__name__, "a.py:b", 1.0))

    gradients: list[Any] = []

    class Keep(TrainerCallback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, *_: Any, model: Any, **__: Any) -> None:
            gradients.append(_flat(model))

    model.generate = generate
    sizes = {"num_generations": SIZE, "max_completion_length": LONGEST, "max_steps": 1, "reward_weights": WEIGHTS}
    count = SIZE * len(PROMPTS)
    exact = {"per_device_train_batch_size": count, "max_grad_norm": 1e9, "learning_rate": 0.0}
    config = grpo_config(folder, **{**sizes, **exact, **arguments})
    made = ObservedTrainer(
        model=model,
        args=config,
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS]),
        reward_funcs=[reward(0), reward(1)],
        processing_class=tokenizer,
        callbacks=[Keep()],
    )
    count_equal_groups(made)
    said = unscored_completions.on_trainer(made, True, None) if shim else ""  # type: ignore[arg-type]
    made.train()
    is_first = arguments.get("multi_objective_aggregation") == "normalize_then_sum"
    advantages = _advantages(arguments.get("scale_rewards", True), is_first)
    model.zero_grad()
    for own, number, row in rows:
        answer = _completion(number, row)
        logits = model(torch.tensor([own + answer])).logits[0, len(own) - 1 : -1]
        scores = logits.log_softmax(-1).gather(1, torch.tensor(answer)[:, None]).mean()
        (-advantages[number * SIZE + row] * scores / len(rows)).backward()
    expected = _flat(model)
    apart = float((gradients[0] - expected).norm() / expected.norm())
    (line,) = [line for line in made.state.log_history if "loss" in line]
    return {"apart": apart, "figures": line, "said": said}


def _flat(model: Any) -> Any:
    import torch

    return torch.cat([tensor.grad.flatten().double() for tensor in model.parameters()])


def compared(folder: Path, *, cases: dict[str, dict[str, Any]], shim: bool = True) -> dict[str, dict[str, Any]]:
    """What each case gives."""
    return {name: trained(folder / name.replace(" ", "-"), shim=shim, **case) for name, case in cases.items()}


if __name__ == "__main__":
    asked = json.loads(sys.argv[2])
    print("FOUND", json.dumps(compared(Path(sys.argv[1]), cases=asked, shim=len(sys.argv) > 3)))
