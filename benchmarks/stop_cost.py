"""Measures what stop texts cost in generation and behind it: `python benchmarks/stop_cost.py [--check]`.

Completions of random tokens, 512 of 1,024 tokens, with two stop texts, and a byte-level tokenizer of as many tokens as
Qwen2.5 has, one process and one thread. Milliseconds of processor time, the median of the rounds:
token    what ends rows at stop texts, for each token of all rows, beside transformers' own StopStringCriteria
cut      where each completion ends, as TRL is told it
shares   what ended them, for the figures of a step
Each one with rows that end at a stop text, and with rows that go on to the limit.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast, StopStringCriteria

from grpo_recipes.worker.callbacks.ended_shares import ended
from grpo_recipes.worker.ends.ends import Ends, StopTexts

ROWS, LENGTH, PROMPT, VOCABULARY = 512, 1024, 64, 151_643
STOPS = ("</answer>", "\n\nQuestion:")
MOST_TOKEN_MS, MOST_CUT_MS, MOST_SHARES_MS = 1.0, 50.0, 60.0
SYLLABLES = ("ka", "lo", "mi", "ne", "ru", "st", "ab", "er", "in", "on")


def tokenizer() -> Any:
    """Bytes, the parts of the stop texts, and words of syllables, most of them with a space before."""
    drawn = random.Random(0)
    words = dict.fromkeys(["<|end|>", *sorted(ByteLevel.alphabet()), "</", "answer", "ĊĊ", "Question", ">:"])
    while len(words) < VOCABULARY:
        word = "".join(drawn.choices(SYLLABLES, k=drawn.randrange(2, 7)))
        words[drawn.choice(("Ġ", "Ġ", "")) + word] = None
    tokens = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(words)}, merges=[]))
    tokens.decoder = decoders.ByteLevel()
    tokens.add_special_tokens(["<|end|>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokens, eos_token="<|end|>", pad_token="<|end|>")


def completions(made: Any, *, stopped: bool) -> Any:
    """(ROWS, LENGTH) ids. stopped: each ends with a stop text, at another length, and padding behind it."""
    drawn = random.Random(1)
    ends = [made.convert_tokens_to_ids(words) for words in (["</", "answer", ">"], ["ĊĊ", "Question", ":"])]
    rows = []
    for _ in range(ROWS):
        row = [drawn.randrange(1, VOCABULARY) for _ in range(LENGTH)]
        if stopped:
            end = drawn.choice(ends)
            length = drawn.randrange(LENGTH // 2, LENGTH)
            row = [*row[: length - len(end)], *end, *[0] * (LENGTH - length)]
        rows.append(row)
    return torch.tensor(rows)


def spent(rounds: int, act: Callable[[], object]) -> float:
    """Milliseconds of processor time."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        act()
        found.append((time.process_time() - began) * 1e3)
    return statistics.median(found)


def a_token(rounds: int, make: Callable[[], Any], ids: Any) -> float:
    """Milliseconds for each token of a generation, seen at thirty of its lengths."""
    prompts = torch.ones(ROWS, PROMPT, dtype=ids.dtype)
    whole = torch.cat([prompts, ids], dim=1)
    widths = [PROMPT + 1, *range(PROMPT + 512, PROMPT + LENGTH, 16)]

    def go() -> None:
        criteria = make()
        for width in widths:
            if hasattr(criteria, "_looked_at"):
                criteria._looked_at = width - 1
            criteria(whole[:, :width], None)

    return spent(rounds, go) / len(widths)


def measured(rounds: int) -> Iterator[tuple[str, str, float]]:
    """What, of which rows, milliseconds."""
    made = tokenizer()
    ends = Ends((0,), STOPS, made, frozenset({0}))
    began = time.process_time()
    ends.first([1])
    yield "once, for the vocabulary", "", (time.process_time() - began) * 1e3
    library = StopStringCriteria(made, list(STOPS))
    for stopped in (False, True):
        ids = completions(made, stopped=stopped)
        which = "end at a stop text" if stopped else "go on to the limit"
        yield "token", which, a_token(rounds, lambda: StopTexts(ends), ids)
        yield "token, StopStringCriteria", which, a_token(rounds, lambda: library, ids)
        lists = ids.tolist()
        yield "cut", which, spent(rounds, lambda rows=lists: [ends.first(row) for row in rows])
        counts = torch.tensor([ends.first(row) or LENGTH for row in lists])
        mask = (torch.arange(LENGTH) < counts[:, None]).int()
        inputs = {"completion_ids": ids, "completion_mask": mask}
        yield "shares", which, spent(rounds, lambda given=inputs: ended(given, ends))


def main() -> int:
    """Measures and prints; with --check, 1 when a bound does not hold, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each (default: 5)")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bound does not hold")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| what | rows that | ms |\n|---|---|---|")
    bounds = {"token": MOST_TOKEN_MS, "cut": MOST_CUT_MS, "shares": MOST_SHARES_MS}
    all_hold = True
    for what, which, ms in measured(options.rounds):
        print(f"| {what} | {which} | {ms:.2f} |", flush=True)
        all_hold = all_hold and ms <= bounds.get(what, ms)
    return int(options.check and not all_hold)


if __name__ == "__main__":
    sys.exit(main())
