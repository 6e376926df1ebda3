"""What `grpo-run init smollm2` writes beside the model: a recipe, its reward and its rows."""

import json
from typing import NamedTuple

NAME = "smollm2"


class ListedRecipe(NamedTuple):
    """A recipe as `init --list` shows it; see Shipped, which is one of a file."""

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

RECIPE = """\
# SmolLM2-135M-Instruct learns to answer sums, with a LoRA adapter, on a CPU.
#
# Untrained, it explains, and is cut off; it learns the form of the answer, and more than that. On 64 held-out sums, 4
# samples each, seeds 1, 2 and 3, in 530 CPU s each with both evaluations:
#   solved .095 -> .863, .746 and .824, pass@4 .27 -> .90; eight examples in a prompt, without training: .523, .70
# With: torch 2.13.0 (CPU), trl 1.16.0, transformers 5.23.0, peft 0.21.2, accelerate 1.15.0, datasets 5.2.0.
# For: one CPU core or more, 6 GiB of memory, no GPU, and the network only for the model, which init has fetched.
recipe: 1
name: smollm2
description: SmolLM2 135M learns to answer sums, on a CPU.
seed: 1

model:
  model_name_or_path: ./smollm2/model
  dtype: float32                 # several times as fast on a CPU as bfloat16
lora: {r: 16, lora_alpha: 32, target_modules: all-linear}
dataset:
  path: ./smollm2/train.jsonl
  system_prompt: Give only the result.
  prompt: "{{ question }}"
  columns: {solution: "{{ answer }}"}
rewards:
  - {python: "./smollm2/rewards.py:solved", weight: 1.0}
  - {name: completion_length, weight: 0.5, options: {target: 2, max_characters: 40}}
evaluation:                      # at the start and after the last step
  path: ./smollm2/test.jsonl
  greedy: false
  samples: 4
  pass_at: [1, 4]
  passes: {reward: solved}
generation:
  max_prompt_length: 32
  max_completion_length: 12
  temperature: 0.6
grpo:
  num_generations: 8
training:
  prompts_per_step: 4
  learning_rate: 2e-4
  lr_scheduler_type: constant
  max_steps: 24
  save_steps: 8
  gradient_checkpointing: false
launch:
  environment: {OMP_NUM_THREADS: "1"}     # "2" is faster if nothing else runs there
"""

REWARDS = '''\
"""Whether a sum is solved: the last number of the first line is its result."""

import re


def solved(completions, solution, **kwargs):
    """1.0 where the last number of the first line is the right one, else 0.0."""
    texts = [completion[-1]["content"] for completion in completions]
    return [float(_last_number(text) == right) for text, right in zip(texts, solution)]


def _last_number(text):
    numbers = re.findall(r"\\d+", text.strip().partition("\\n")[0])
    return numbers[-1] if numbers else None
'''


def files_beside() -> dict[str, str]:
    """The reward, and rows that the seed draws: a held-out pair of numbers is in no order among the training rows."""
    import random  # the list of recipes needs none

    pairs = [(a, b) for a in range(1, LARGEST + 1) for b in range(a, LARGEST + 1)]
    chance = random.Random(SEED)
    chance.shuffle(pairs)
    held_out = [chance.choice([(a, b), (b, a)]) for a, b in pairs[:HELD_OUT_PAIRS]]
    train = [pair for a, b in pairs[HELD_OUT_PAIRS:] for pair in dict.fromkeys([(a, b), (b, a)])]
    chance.shuffle(train)
    rows = {f"{name}.jsonl": "".join(map(_row, sums)) for name, sums in (("train", train), ("test", held_out))}
    return {"rewards.py": REWARDS, **rows}


def _row(pair: tuple[int, int]) -> str:
    return json.dumps({"question": f"{pair[0]} + {pair[1]} = ?", "answer": str(sum(pair))}) + "\n"
