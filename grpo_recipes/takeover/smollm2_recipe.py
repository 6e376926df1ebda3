"""What `grpo-run init smollm2` writes beside the model: a recipe, its reward and its rows."""

import json
from dataclasses import dataclass

NAME = "smollm2"


@dataclass(frozen=True, slots=True)
class ListedRecipe:
    """A recipe as `init --list` shows it.

    task, size, hardware and state stand in a line of its head; the hardware is written as `gpus=` of a target, with
    the machines before it where they are several, and cpu for none.
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


# The recipe that `grpo-run init` writes where nobody says which.


STARTER = """\
# One GRPO experiment. What is not written has the value of format 1, the same on every stack; `grpo-run explain KEY`
# says what a key means, `grpo-run plan FILE` shows every value with where it comes from.
recipe: 1
name: my-recipe
description: Qwen2.5 0.5B learns GSM8K with a LoRA adapter.
seed: 42

model:
  model_name_or_path: Qwen/Qwen2.5-0.5B-Instruct     # yours: a hub id, or ./folder
  dtype: bfloat16
lora: {r: 16, lora_alpha: 32, target_modules: all-linear}     # remove the line to train every weight
dataset:
  path: openai/gsm8k                                 # yours: a hub id, or a .jsonl, .csv or .parquet file
  name: main
  split: train
  system_prompt: Reason step by step, then give the final number in \\boxed{}.
  prompt: "{{ question }}"                           # a template over the columns of a row
  columns: {solution: "{{ answer.split('####')[-1] | trim }}"}     # what the rewards receive
rewards:
  - {name: accuracy, weight: 1.0}                    # shipped: it compares with `solution`
  # - {python: "rewards.py:brevity", weight: 0.1}    # yours: a function in a file beside this one
evaluation: {split: test, max_rows: 200, every_steps: 50}
generation:
  max_completion_length: 512                         # tokens
  use_vllm: auto
grpo:
  num_generations: 8                                 # completions of each prompt
training:
  prompts_per_step: 16                               # over all GPUs, the same on 1 and on 64
  learning_rate: 1e-5
  max_steps: 200
  bf16: true                                         # a GPU that can; false on others
  save_steps: 50
"""
