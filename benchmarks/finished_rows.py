"""Measures what generation gains if rows that ended leave the batch: `python benchmarks/finished_rows.py [--rounds 3]`.

transformers computes every row of a batch until the longest one ends. The loops below draw the answers of SmolLM2-135M
(`make real-model`) to the questions of padding.py, 32 rows of up to 192 tokens, with transformers' own model and cache,
from the same random numbers: of all rows, as torch.multinomial draws them, whichever rows are left. They differ only in
whether rows leave. Printed are CPU seconds on one thread, medians of rounds in turn, and how many rows have the same
tokens.
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from padding import GENERATIONS, NATURAL_TOKENS, QUESTIONS
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

MODEL = Path(__file__).parents[1] / "build" / "real" / "smollm2" / "model"
GROUPS = 4


def draw(model: Any, inputs: dict[str, Any], end: int, *, leave: bool) -> list[list[int]]:
    """Returns the tokens of each row at temperature 1. leave: rows that ended are no longer computed."""
    torch.manual_seed(0)
    mask, ids = inputs["attention_mask"], inputs["input_ids"]
    rows: list[list[int]] = [[] for _ in ids]
    active, cache = torch.arange(len(ids)), DynamicCache()
    position = mask.cumsum(1) - 1
    logits = model(
        ids, attention_mask=mask, position_ids=position.clamp(min=0), past_key_values=cache, logits_to_keep=1
    ).logits[:, -1]
    position = position[:, -1]
    is_open = torch.ones(len(ids), dtype=torch.bool)
    for _ in range(NATURAL_TOKENS):
        noise = torch.empty(len(rows), logits.shape[1]).exponential_(1)
        drawn = (logits.softmax(-1) / noise[active]).argmax(-1)
        for row, token in zip(active.tolist(), drawn.tolist(), strict=True):
            if is_open[row]:
                rows[row].append(token)
                is_open[row] = token != end
        if not is_open.any():
            break
        if leave and not (stay := is_open[active]).all():
            cache.batch_select_indices(stay.nonzero()[:, 0])
            active, drawn, mask, position = active[stay], drawn[stay], mask[stay], position[stay]
        mask, position = torch.cat([mask, mask.new_ones(len(mask), 1)], 1), position + 1
        logits = model(
            drawn[:, None], attention_mask=mask, position_ids=position[:, None], past_key_values=cache
        ).logits[:, -1]
    return rows


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(MODEL, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()
    texts = [
        tokenizer.apply_chat_template([{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False)
        for text in QUESTIONS[:GROUPS]
        for _ in range(GENERATIONS)
    ]
    inputs = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
    spent: dict[bool, list[float]] = {False: [], True: []}
    drawn: dict[bool, list[list[int]]] = {}
    with torch.no_grad():
        for _ in range(options.rounds):
            for leave in spent:
                began = time.process_time()
                drawn[leave] = draw(model, inputs, tokenizer.eos_token_id, leave=leave)
                spent[leave].append(time.process_time() - began)
    stay, go = (statistics.median(spent[leave]) for leave in (False, True))
    equal = sum(one == other for one, other in zip(drawn[False], drawn[True], strict=True))
    tokens = sum(map(len, drawn[False])) / len(drawn[False])
    print(f"{len(texts)} rows, {tokens:.0f} tokens on average, {max(map(len, drawn[False]))} at most")
    print(f"all rows to the end: {stay:.1f} CPU s; ended rows leave: {go:.1f} CPU s, {go / stay:.2f} of it")
    print(f"rows with the same tokens: {equal} of {len(texts)}")


if __name__ == "__main__":
    main()
