"""`python benchmarks/task_pass_rates.py [--write]`: what the untrained SmolLM2 solves of tasks of reasoning-gym.

A task is worth training on where some samples of a prompt are right and others are not. The prompt is text without the
chat template: four solved rows, then the question. Each task has 16 rows, and each row 8 samples at temperature 1, of
at most 24 tokens, whose first line is the answer; it is right if the task's own scorer gives it 1.0. The model is what
`make real` or `grpo-run init smollm2` wrote.

--write  also writes benchmarks/task_pass_rates.md.
--model  a folder with another model.
"""

import argparse
import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

from grpo_recipes.contract.tasks.task_rows import make_rows
from grpo_recipes.rewards.reasoning_gym import reasoning_gym

PAGE = Path(__file__).with_suffix(".md")
MODEL = "build/real/smollm2/model"
EXAMPLES, ROWS, SAMPLES, TOKENS, SEED = 4, 16, 8, 24, 1
TASKS: dict[str, dict[str, Any]] = {
    "basic_arithmetic": {"max_terms": 2, "max_digits": 1},
    "calendar_arithmetic": {},
    "chain_sum": {"max_terms": 2, "max_digits": 2},
    "coin_flip": {},
    "count_bits": {"max_n": 255},
    "count_primes": {"max_n": 30},
    "decimal_chain_sum": {"max_terms": 2, "max_digits": 1},
    "family_relationships": {},
    "fraction_simplification": {"max_value": 20, "max_factor": 5},
    "gcd": {"max_value": 30},
    "gsm_symbolic": {},
    "isomorphic_strings": {"max_string_length": 4},
    "lcm": {"max_value": 12},
    "leg_counting": {"min_animals": 1, "max_animals": 2, "max_instances": 3},
    "letter_counting": {"max_words": 5},
    "needle_haystack": {"max_num_statements": 12},
    "number_filtering": {"max_numbers": 4},
    "number_sequence": {},
    "number_sorting": {"max_numbers": 3, "max_decimals": 0},
    "products": {"max_digits": 1},
    "ransom_note": {"max_note_length": 4, "max_magazine_length": 8},
    "simple_equations": {},
    "spell_backward": {"max_word_len": 4},
    "syllogism": {},
    "time_intervals": {},
    "word_sequence_reversal": {"max_words": 3},
    "word_sorting": {"max_words": 3},
}


class Solved(NamedTuple):
    """What the samples of a task were worth. rows: digest of the rows."""

    pass_1: float
    pass_n: float
    mean: float
    rows: str


def solved(name: str, config: dict[str, Any], model: Any, tokenizer: Any) -> Solved:
    """The shares of samples that are right, and of rows of which a sample is, and the mean score."""
    tasks = [{"name": name, "weight": 1, "config": config}]
    made = make_rows({"tasks": tasks, "size": EXAMPLES + ROWS, "seed": SEED})
    examples = "".join(f"{_text(row)} {row['answer']}\n\n" for row in made.rows[:EXAMPLES])
    set_seed(SEED)
    scores = []
    for row in made.rows[EXAMPLES:]:
        columns: dict[str, Any] = {key: [value] * SAMPLES for key, value in row.items()}
        scores.append(reasoning_gym(_sampled(examples + _text(row), model, tokenizer), **columns))
    every = [score for of_row in scores for score in of_row]
    return Solved(
        sum(score >= 1.0 for score in every) / len(every),
        sum(max(of_row) >= 1.0 for of_row in scores) / len(scores),
        sum(every) / len(every),
        made.sha256[:12],
    )


def _text(row: dict[str, Any]) -> str:
    return f"Question: {row['question'].strip()}\nAnswer:"


def _sampled(prompt: str, model: Any, tokenizer: Any) -> list[Any]:
    """The first lines of samples; what the prompt costs is computed once."""
    tokens = tokenizer(prompt, return_tensors="pt").input_ids
    with torch.inference_mode():
        cache = model(tokens[:, :-1], use_cache=True).past_key_values
        cache.batch_repeat_interleave(SAMPLES)
        sampled = model.generate(
            tokens.repeat(SAMPLES, 1),
            past_key_values=cache,
            max_new_tokens=TOKENS,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            stop_strings=["\n"],
            tokenizer=tokenizer,
        )
    answers = tokenizer.batch_decode(sampled[:, tokens.shape[1] :], skip_special_tokens=True)
    return [answer.strip().partition("\n")[0] for answer in answers]


def page(found: dict[str, Solved], weights: str) -> str:
    """The table, the tasks that are solved most often first."""
    head = [
        "# Pass rates of the untrained SmolLM2-135M-Instruct",
        "",
        "Written by `python benchmarks/task_pass_rates.py --write`. "
        f"Each task has {ROWS} rows after {EXAMPLES} solved examples in the prompt, with {SAMPLES} samples of each row "
        f"at temperature 1 and at most {TOKENS} tokens. A sample is right if the task scores its first line with 1.0. "
        f"sha256 of the weights: {weights}.",
        "",
        f"| task | config | pass@1 | pass@{SAMPLES} | mean score | rows |",
        "|---|---|---|---|---|---|",
    ]
    rows = [
        f"| {name} | {', '.join(f'{key} {value}' for key, value in TASKS[name].items()) or '-'} "
        f"| {one.pass_1:.3f} | {one.pass_n:.3f} | {one.mean:.3f} | {one.rows} |"
        for name, one in sorted(found.items(), key=lambda each: -each[1].pass_1)
    ]
    return "\n".join([*head, *rows, ""])


def main() -> None:
    """Prints a line for each task as it is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(asked.model)
    model = AutoModelForCausalLM.from_pretrained(asked.model)
    found = {}
    for name, config in TASKS.items():
        one = found[name] = solved(name, config, model, tokenizer)
        print(f"{name:24} pass@1 {one.pass_1:.3f}  pass@{SAMPLES} {one.pass_n:.3f}  mean {one.mean:.3f}", flush=True)
    if asked.write:
        weights = hashlib.sha256(Path(asked.model, "model.safetensors").read_bytes()).hexdigest()[:12]
        PAGE.write_text(page(found, weights), encoding="utf-8")


if __name__ == "__main__":
    main()
