"""A step's entropy, kl, clip ratios and ends as they are logged, and as its rows give them."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from raw_trl import PROMPTS, grpo_config, model_folder, trainer

LONGEST = 12


def _generate_given(model: Any, lengths: list[int], *, writes_pads: bool) -> list[int]:
    """Lets the model generate letters up to these lengths by turns, with an end token unless they are the longest.

    writes_pads: every fifth completion ends with a PAD token if it is one of the longest. Returns a list that gets all
    lengths.
    """
    import torch

    count, drawn = [0], list[int]()

    def generate(input_ids: Any, attention_mask: Any, **_: Any) -> Any:
        rows = []
        for ids in input_ids.tolist():
            count[0] += 1
            length = lengths[count[0] % len(lengths)]
            tokens = [3 + (11 * count[0] + 5 * place) % 36 for place in range(length)]
            tokens[-1] = 2 if length < LONGEST else tokens[-1] * (not writes_pads or count[0] % 5 > 0)
            drawn.append(length)
            rows.append(ids + tokens + [0] * (LONGEST - length))
        return torch.tensor(rows)

    model.generate = generate
    return drawn


def _oracle(rows: list[dict[str, Any]], config: Any) -> dict[str, float]:
    """The figures of a step's rows, each counted by its trained tokens; {} without one."""
    import torch

    rows = [row for row in rows if row["mask"].any()]
    if not rows:
        return {}
    by_row = getattr(config, "importance_sampling_level", "token") == "sequence"

    def mean(name: str) -> float:
        return float(torch.cat([row[name][row["mask"]] for row in rows]).double().mean())

    for row in rows:
        ratio = (row["logps"] - row["old"]) * row["mask"]
        row["ratio"] = ratio = (ratio.sum() / row["mask"].sum() if by_row else ratio).exp().expand_as(row["logps"])
        row["low"] = ((ratio < 1 - config.epsilon) & (row["advantage"] < 0)).float()
        row["high"] = ((ratio > 1 + config.epsilon) & (row["advantage"] > 0)).float()
    found = {"entropy": mean("entropy")} if rows[0]["entropy"] is not None else {}
    if config.beta:
        for row in rows:
            apart = row["ref"] - row["logps"]
            row["kl"] = apart.exp() - apart - 1
            row["kl"] = row["kl"] * (row["ratio"] if getattr(config, "use_bias_correction_kl", False) else 1)
        found["kl"] = mean("kl")
    if config.loss_type in ("grpo", "bnpo", "dr_grpo", "dapo"):
        for name in ("low", "high"):
            shares = [float(row[name][row["mask"]].mean()) for row in rows]
            found[f"clip_ratio/{name}_mean"] = sum(shares) / len(shares) if by_row else mean(name)
        found["clip_ratio/region_mean"] = found["clip_ratio/low_mean"] + found["clip_ratio/high_mean"]
    return found


def figures(
    folder: Path,
    *,
    lengths: list[int],
    shim: str | None = None,
    kind: str = "Qwen2",
    writes_pads: bool = True,
    **arguments: Any,
) -> dict[str, Any]:
    """Trains four steps; gives for each step what is logged and what its rows give, and the micro-batches' counts."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

    from grpo_recipes.worker.callbacks.ended_shares import log_ends
    from grpo_recipes.worker.callbacks.token_figures import TokenFigures
    from grpo_recipes.worker.shims import less_padding

    steps: list[list[dict[str, Any]]] = [[]]
    tokens: list[int] = []

    class Steps(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            steps.append([])

    folder.mkdir(exist_ok=True, parents=True)
    path = str(model_folder(folder, kind))
    model = AutoModelForCausalLM.from_pretrained(path)
    rank = int(os.environ.get("RANK", "0"))
    drawn = _generate_given(model, lengths[rank:] + lengths[:rank], writes_pads=writes_pads)
    exact = {"max_grad_norm": 1e9, "optim": "sgd", "lr_scheduler_type": "constant", "learning_rate": 0.3}
    sizes = {"num_generations": 4, "max_completion_length": LONGEST, "max_steps": 4, "beta": 0.04}
    config = grpo_config(folder, **{**exact, **sizes, **arguments})
    tokenizer = AutoTokenizer.from_pretrained(path)
    parts = {"processing_class": tokenizer, "callbacks": [Steps()]}
    made = trainer(config, model, prompts=PROMPTS[:8], is_observed=True, **parts)
    if shim:
        less_padding.on_trainer(made, shim, None)  # type: ignore[arg-type]
    name = made.seams.whole("tokens are scored").__name__
    score, compute, scored = getattr(made, name), made.compute_loss, []

    def noted(*given: Any, **named: Any) -> Any:
        answer = score(*given, **named)
        if torch.is_grad_enabled():
            scored[:] = list(answer.values()) if isinstance(answer, dict) else list(answer)
            scored[:] = [answer] if isinstance(answer, torch.Tensor) else scored
        return answer

    def computed(model: Any, inputs: Any, *given: Any, **named: Any) -> Any:
        loss = compute(model, inputs, *given, **named)
        logps = scored[0].detach()
        entropies = scored[1].detach() if len(scored) > 1 and scored[1] is not None else [None] * len(logps)
        old, ref = (inputs.get(f"{name}_per_token_logps") for name in ("old", "ref"))
        tokens.append(int(inputs["completion_mask"].sum()))
        for row, mask in enumerate(inputs["completion_mask"].bool()):
            parts = {"mask": mask, "logps": logps[row], "entropy": entropies[row]}
            parts |= {"old": logps[row] if old is None else old[row], "ref": None if ref is None else ref[row]}
            steps[-1].append(parts | {"advantage": inputs["advantages"][row]})
        return loss

    setattr(made, name, noted)
    made.compute_loss = computed
    made.add_callback(TokenFigures(made))
    log_ends(made, SimpleNamespace(expect=SimpleNamespace(stop=(), stop_token_ids=())))  # type: ignore[arg-type]
    made.train()
    if made.accelerator.num_processes > 1:
        of_all: list[Any] = [None] * made.accelerator.num_processes
        torch.distributed.all_gather_object(of_all, steps)
        steps = [[row for rank in of_all for row in rank[place]] for place in range(len(steps))]
    logged = [line for line in made.state.log_history if "loss" in line]
    return {
        "logged": logged,
        "rows": [_oracle(rows, config) for rows in steps[: len(logged)]],
        "tokens": tokens,
        "drawn": drawn,
    }


def compared(folder: Path, *, cases: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The figures of each case."""
    return {name: figures(folder / name.replace(" ", "-"), **case) for name, case in cases.items()}


if __name__ == "__main__":
    asked = json.loads(sys.argv[2])
    print("FOUND", json.dumps(compared(Path(sys.argv[1]), cases=asked)))
