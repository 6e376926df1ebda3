"""Small runs of the quickstart, each kind trained once, and what is asked of the models that they leave."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECIPES = Path(__file__).parents[2] / "recipes"
RECIPE = RECIPES / "quickstart.yaml"
ADDED = ["<search>", "</search>"]
# Large steps, so that a few of them change more than bfloat16 rounds away.
SMALL = {"training.max_steps": 4, "training.learning_rate": 1e-2, "training.save_steps": 0, "evaluation.max_rows": 12}
KINDS: dict[str, dict[str, object]] = {
    # Records no completions.
    "full": {"lora": None, "training.learning_rate": 1e-3, "evaluation": None},
    "lora": {},
    "nf4": {"quantization": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}},
    # With new tokens. Embedding and output layer are one matrix in the base, and stay one.
    "tied": {
        "tokenizer.add_tokens": ADDED,
        "lora.modules_to_save": ["embed_tokens"],
        "lora.ensure_weight_tying": True,
        "generation.stop": ["</search>"],
    },
}
LIMIT_S = 600


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command ended, what it printed, and the answer that it gave as JSON."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """The answer of a command with --json."""
        found: dict[str, Any] = json.loads(self.out)
        return found


Command = Callable[..., Answer]


def command(bin_folder: Path, *words: object, typed: str | None = None, **more: str) -> Answer:
    """A command of grpo-run as a user types it, with the Python of a folder. typed: what a pipe gives it."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **more}
    done = subprocess.run(
        [bin_folder / "grpo-run", *map(str, words)],
        input=typed,
        capture_output=True,
        text=True,
        env=environment,
        timeout=LIMIT_S,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def trained(bin_folder: Path, kind: str, folder: Path) -> Path:
    """A run folder whose model was trained for a few steps."""
    values = {**SMALL, **KINDS[kind]}
    if values.get("evaluation", 0) is None:
        values.pop("evaluation.max_rows")
    options = [word for key, value in values.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    done = command(bin_folder, RECIPE, "--out", folder, *options)
    assert done.code == 0, done.out + done.err
    return folder


def own_log_probs(model: Any, texts: list[tuple[list[int], list[int]]]) -> list[float]:
    """The log-probability of each token of each completion behind its prompt, computed apart from what is tested."""
    import torch

    found: list[float] = []
    for prompt, completion in texts:
        with torch.no_grad():
            every = model(torch.tensor([prompt + completion])).logits[0].double().log_softmax(-1)
        found += [every[place - 1, token].item() for place, token in enumerate(completion, len(prompt))]
    return found


def largest(some: list[float], others: list[float]) -> float:
    """The largest difference."""
    return max(abs(one - other) for one, other in zip(some, others, strict=True))
