"""The files that `grpo-run init smollm2` writes next to the model: a recipe, its reward and its rows."""

import json
from dataclasses import dataclass
from pathlib import Path

NAME = "smollm2"


@dataclass(frozen=True, slots=True)
class ListedRecipe:
    """A recipe for `init --list`.

    task, size, hardware and state come from a line of its head; the hardware is written as in `gpus=` of a target, with
    the number of machines first if there are several, and cpu for none.
    """

    name: str
    description: str
    task: str
    size: str
    method: str
    hardware: str
    state: str


FACTS = ListedRecipe(
    NAME,
    "SmolLM2 135M learns to answer sums, on a CPU.",
    "sums of two numbers up to 20",
    "135M",
    "LoRA",
    "cpu",
    "run here",
)
SEED = 8
LARGEST = 20
HELD_OUT_PAIRS = 64

DATA = Path(__file__).parent / "data"
RECIPE = (DATA / "smollm2.yaml").read_text(encoding="utf-8")
STARTER = (DATA / "starter.yaml").read_text(encoding="utf-8")
"""The recipe that `grpo-run init` writes by default."""


def files_beside() -> dict[str, str]:
    """The reward, and rows drawn by the seed: held-out pairs of numbers are in no order among the training rows."""
    import random  # the list of recipes does not need it

    import yaml

    pairs = [(a, b) for a in range(1, LARGEST + 1) for b in range(a, LARGEST + 1)]
    chance = random.Random(SEED)
    chance.shuffle(pairs)
    held_out = [chance.choice([(a, b), (b, a)]) for a, b in pairs[:HELD_OUT_PAIRS]]
    train = [pair for a, b in pairs[HELD_OUT_PAIRS:] for pair in dict.fromkeys([(a, b), (b, a)])]
    chance.shuffle(train)
    rows = {f"{name}.jsonl": "".join(map(_row, sums)) for name, sums in (("train", train), ("test", held_out))}
    rewards = yaml.safe_load((DATA / "smollm2_rewards.yaml").read_text(encoding="utf-8"))["text"]
    return {"rewards.py": rewards, **rows}


def _row(pair: tuple[int, int]) -> str:
    return json.dumps({"question": f"{pair[0]} + {pair[1]} = ?", "answer": str(sum(pair))}) + "\n"
