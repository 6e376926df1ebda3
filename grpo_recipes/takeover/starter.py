"""The recipe that `grpo-run init` writes where nobody says which."""

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
