"""Measures what the prompt of a group costs when it is computed once for all of its completions; prints a table.

    python benchmarks/shared_prompt.py [--model FOLDER] [--profiles gsm8k,math,tools]

A group has one prompt and 8 completions. "rows" computes each row by itself, without padding: the least that SHM025 can
reach. "shared" computes one sequence, the prompt followed by all completions. A mask lets each completion see only the
prompt and itself, and the positions of each continue those of the prompt. Both ways compute the log-probability of each
token of the completions, and the gradient of their sum. The table has processor time in
float32 on one thread. Without --model the script makes a Qwen2 of 4 layers.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.padding import GENERATIONS, PROFILES, drawn, small_model


def rows_alone(model: Any, prompt: list[int], completions: list[list[int]]) -> Any:
    """The sum of the log-probabilities of all tokens of the completions, each row by itself."""
    import torch

    total = torch.zeros(())
    for ids in completions:
        row = torch.tensor([prompt + ids])
        logits = model(input_ids=row, logits_to_keep=len(ids) + 1).logits[0, :-1]
        part = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None]).sum()
        part.backward()
        total = total + part.detach()
    return total


def shared(model: Any, prompt: list[int], completions: list[list[int]]) -> Any:
    """The same in one sequence."""
    import torch

    ids = prompt + [token for one in completions for token in one]
    length, begin = len(ids), len(prompt)
    sees = torch.ones(length, length, dtype=torch.bool).tril()
    positions, places, start = [*range(begin)], [], begin
    for one in completions:
        end = start + len(one)
        sees[start:end, begin:start] = False
        positions += range(begin, begin + len(one))
        places += [begin - 1, *range(start, end - 1)]
        start = end
    hidden = model.model(
        input_ids=torch.tensor([ids]), attention_mask=sees[None, None], position_ids=torch.tensor([positions])
    ).last_hidden_state[0]
    logits = model.lm_head(hidden[places])
    total = logits.log_softmax(-1).gather(1, torch.tensor(ids[begin:])[:, None]).sum()
    total.backward()
    return total.detach()


def measured(model: Any, way: Any, prompt: list[int], completions: list[list[int]]) -> tuple[float, float, Any]:
    """Seconds, the sum, and the gradient of all parameters."""
    import torch

    model.zero_grad()
    began = time.process_time()
    total = way(model, prompt, completions)
    spent = time.process_time() - began
    return spent, float(total), torch.cat([tensor.grad.flatten() for tensor in model.parameters()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--profiles", default=",".join(PROFILES))
    options = parser.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error"}
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    print("| lengths | tokens of the rows | with the prompt once | CPU s | with the prompt once | apart |")
    print("|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as work:
        folder = options.model or small_model(Path(work, "model"))
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
        tokenizer = AutoTokenizer.from_pretrained(folder)
        for name in options.profiles.split(","):
            rows = drawn(PROFILES[name], 1, tokenizer)
            prompt = tokenizer.encode(rows[0].prompt, add_special_tokens=False)
            completions = [row.completion for row in rows]
            measured(model, rows_alone, prompt, completions[:1])
            alone, once = (measured(model, way, prompt, completions) for way in (rows_alone, shared))
            made = sum(map(len, completions))
            apart = float((once[2] - alone[2]).norm() / alone[2].norm())
            cells = [name, len(prompt) * GENERATIONS + made, len(prompt) + made, f"{alone[0]:.2f}"]
            print(f"| {' | '.join(map(str, cells))} | {once[0]:.2f} | {apart:.0e} |", flush=True)


if __name__ == "__main__":
    main()
