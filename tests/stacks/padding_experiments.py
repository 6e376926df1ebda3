"""What the shim `less_padding` changes: the gradient of each optimizer step, TRL's figures, and the tokens computed."""

import json
import sys
from pathlib import Path
from typing import Any

from raw_trl import PROMPTS, grpo_config, model_folder, trainer

GENERATIONS, LONGEST = 4, 24


def _completion(number: int) -> list[int]:
    """Tokens of a completion: letters, and the end token unless it is truncated. Most are short, some are not."""
    length = (2, 9, 4, LONGEST, 3, 6, 13, 5, 7)[number % 9]
    tokens = [3 + (11 * number + 5 * place) % 36 for place in range(length)]
    return tokens if length == LONGEST else [*tokens[:-1], 2]


def _prompts() -> list[str]:
    """Of different lengths."""
    return [f"{'z' * (3 * place)}{text}" for place, text in enumerate(PROMPTS[:8])]


def _generate_given(model: Any) -> None:
    """Lets the model generate the same completions on every release."""
    import torch

    def generate(input_ids: Any, attention_mask: Any, **_: Any) -> Any:
        drawn = [_completion(int(ids.sum()) + row) for row, ids in enumerate(input_ids)]
        return torch.tensor(
            [
                ids + tokens + [0] * (LONGEST - len(tokens))
                for ids, tokens in zip(input_ids.tolist(), drawn, strict=True)
            ]
        )

    model.generate = generate


def train(
    folder: Path, *, shim: str | None = None, kind: str = "Qwen2", steps: int = 2, **arguments: Any
) -> dict[str, Any]:
    """Trains with given completions. Gives the file with the gradient of each step, the logged figures, the tokens that
    the policy computed, and what the shim says.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

    from grpo_recipes.worker.callbacks.token_figures import TokenFigures
    from grpo_recipes.worker.shims import less_padding

    kept: list[Any] = []
    computed, labels = [0], [0]

    class Keep(TrainerCallback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, *_: Any, model: Any, **__: Any) -> None:
            kept.append(torch.cat([tensor.grad.flatten().double() for tensor in model.parameters()]))

    folder.mkdir(exist_ok=True, parents=True)
    path = str(model_folder(folder, kind))
    model = AutoModelForCausalLM.from_pretrained(path)
    _generate_given(model)

    def count(_: Any, given: Any, named: dict[str, Any]) -> None:
        computed[0] += (given[0] if given else named["input_ids"]).numel()
        labels[0] += int((named["labels"] != -100).sum()) if named.get("labels") is not None else 0

    model.register_forward_pre_hook(count, with_kwargs=True)
    exact = {"max_grad_norm": 1e9, "optim": "sgd", "lr_scheduler_type": "constant", "learning_rate": 0.05}
    sizes = {"num_generations": GENERATIONS, "max_completion_length": LONGEST, "max_steps": steps}
    config = grpo_config(folder, **{**exact, **sizes, **arguments})
    tokenizer = AutoTokenizer.from_pretrained(path)
    made = trainer(config, model, prompts=_prompts(), processing_class=tokenizer, is_observed=True, callbacks=[Keep()])
    said = less_padding.on_trainer(made, shim, None) if shim else ""  # type: ignore[arg-type]
    made.add_callback(TokenFigures(made))
    made.train()
    torch.save(torch.stack(kept), folder / "gradients.pt")
    figures = [line for line in made.state.log_history if "loss" in line]
    return {
        "file": str(folder / "gradients.pt"),
        "figures": figures,
        "computed": computed[0],
        "labels": labels[0],
        "said": said,
    }


def compared(folder: Path, *, cases: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each case trained by TRL alone and with both forms of the shim: by form, how far the gradients of the steps are
    from TRL's, relative to their length, the share of TRL's tokens, the last figures, and what the shim says. The form
    "whole" is TRL alone with one micro-batch for each step.
    """
    import torch

    def apart(own: dict[str, Any], trl: Any) -> list[float]:
        return [float((a - b).norm() / b.norm()) for a, b in zip(torch.load(own["file"]), trl, strict=True)]

    found: dict[str, dict[str, Any]] = {}
    for name, case in cases.items():
        plain = train(folder / name / "plain", **case)
        trl = torch.load(plain["file"])
        found[name] = {"plain": {"figures": plain["figures"][-1], "labels": plain["labels"]}}
        for shim in ("sorted", "packed"):
            own = train(folder / name / shim, shim=shim, **case)
            share = own["computed"] / plain["computed"]
            found[name][shim] = {
                "apart": apart(own, trl),
                "share": share,
                "figures": own["figures"][-1],
                "labels": own["labels"],
                "said": own["said"],
            }
        size = case["per_device_train_batch_size"] * case["gradient_accumulation_steps"]
        one = {**case, "per_device_train_batch_size": size, "gradient_accumulation_steps": 1}
        if "steps_per_generation" not in case:
            whole = train(folder / name / "whole", **one)
            found[name]["whole"] = {"apart": apart(whole, trl), "figures": whole["figures"][-1]}
    return found


if __name__ == "__main__":
    asked = json.loads(sys.argv[2])
    print("FOUND", json.dumps(compared(Path(sys.argv[1]), cases=asked)))
