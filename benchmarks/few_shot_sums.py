"""`python benchmarks/few_shot_sums.py [FOLDER]`: what the untrained SmolLM2 solves with examples instead of training.

The text before each held-out sum is that of the first four training rows, solved, without the chat template. Sampled
and scored as the recipe's evaluation does it. FOLDER has what `grpo-run init smollm2` wrote; build/real if not given.
"""

import json
import runpy
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

EXAMPLES, SAMPLES, TEMPERATURE, TOKENS = 4, 4, 0.6, 9


def main(folder: Path) -> None:
    """Prints the share of answers that are right, and of sums that one of the samples solves."""
    train, test = (
        [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()] for name in ("train", "test")
    )
    examples = "".join(row["question"].replace("?", row["answer"]) + "\n" for row in train[:EXAMPLES])
    texts = [examples + row["question"].removesuffix(" ?") for row in test for _ in range(SAMPLES)]
    tokenizer = AutoTokenizer.from_pretrained(folder / "model", padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(folder / "model")
    inputs = tokenizer(texts, return_tensors="pt", padding=True)
    set_seed(1)
    with torch.inference_mode():
        sampled = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=True, temperature=TEMPERATURE, top_k=0)
    answers = tokenizer.batch_decode(sampled[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    solved = runpy.run_path(str(folder / "rewards.py"))["solved"]
    solutions = [row["answer"] for row in test for _ in range(SAMPLES)]
    scores = solved([[{"content": answer}] for answer in answers], solutions)
    rows = [scores[start : start + SAMPLES] for start in range(0, len(scores), SAMPLES)]
    share, passes = sum(scores) / len(scores), sum(map(max, rows)) / len(rows)
    print(f"solved {share:.3f}  pass@{SAMPLES} {passes:.3f}  ({len(rows)} rows)")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/real/smollm2"))
