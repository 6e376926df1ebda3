"""Makes the guess recipe's data and its small model that counts up: `python make_model.py`.

The model (Qwen2, 0.4 M parameters) is trained from nothing on games in which one of fifteen numbers is to be guessed.
13 times in 20 it counts up from the first of them, whatever is answered; 7 times in 20 it halves what the answers
leave. What GRPO can teach it afterwards is a habit: to halve, which takes fewer guesses.

Neither this script nor GRPO trains on the games of test.jsonl: 12 % of them, in ranges that have other games in
train.jsonl. It takes about 250 CPU seconds.
The shipped files were made with torch 2.13.0, transformers 5.23.0 and tokenizers 0.23.3.
"""

import random
import string
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from small_model import (
    HELD_OUT_SHARE,
    RESPONSE_TEMPLATE,
    SEED,
    TOOL_TEMPLATE,
    TOOL_WORDS,
    Conversation,
    make_tokenizer,
    options,
    write_model_settings,
    write_rows,
    write_weights,
)

HALVING = 0.35
GUESSES = 4
SIZE = 15
STEPS = 600
GAMES = 64
# What is the same in each call, and each number, is one token, so that games are short.
WORDS = ('{"name": "guess", "arguments": {"number": ', "}}", "guess", "number", "higher", "lower", "right")
NUMBERS = range(10, 100)


def split_games() -> tuple[list[tuple[range, int]], list[tuple[range, int]]]:
    """All games, a range and the number in it, as (train, test)."""
    ranges = [range(low, low + SIZE) for low in NUMBERS if low + SIZE <= NUMBERS.stop]
    games = [(one, number) for one in ranges for number in one]
    held_out = set(random.Random(SEED).sample(games, int(HELD_OUT_SHARE * len(games))))
    return [each for each in games if each not in held_out], [each for each in games if each in held_out]


def rows(games: list[tuple[range, int]]) -> list[dict[str, str]]:
    """What is written of games."""
    return [{"question": asked(numbers), "number": str(number)} for numbers, number in games]


def asked(numbers: range) -> str:
    """What the model reads: 23-37."""
    return f"{numbers[0]}-{numbers[-1]}"


def game(numbers: range, number: int, *, halves: bool) -> Conversation:
    """A game about a number."""
    low, high = numbers[0], numbers[-1]
    begins = f"<|im_start|>system\n<tools>guess(number)</tools><|im_end|>\n<|im_start|>user\n{asked(numbers)}"
    found: Conversation = [(f"{begins}<|im_end|>\n<|im_start|>assistant\n", False)]
    for place in range(GUESSES):
        guess = (low + high) // 2 if halves else numbers[place]
        call = f'<tool_call>{{"name": "guess", "arguments": {{"number": {guess}}}}}</tool_call><|im_end|>'
        answer = "right" if guess == number else "higher" if number > guess else "lower"
        found += [(call, True), (f"\n<|im_start|>tool\n{answer}<|im_end|>\n<|im_start|>assistant\n", False)]
        if guess == number:
            return [*found, (f"{number}<|im_end|>", True)]
        low, high = (guess + 1, high) if number > guess else (low, guess - 1)
    return [*found, ("<|im_end|>", True)]


def main() -> None:
    """Writes train.jsonl, test.jsonl and model/ into the output folder."""
    asked_for = options(main.__doc__, HERE, STEPS)
    train, test = split_games()
    folder = asked_for.out / "model"
    tokenizer = make_tokenizer(string.printable[:95] + "\n", [*TOOL_WORDS, *WORDS, *map(str, NUMBERS)])
    write_model_settings(folder, tokenizer, TOOL_TEMPLATE, response_template=RESPONSE_TEMPLATE)
    write_rows(rows(train), asked_for.out / "train.jsonl")
    write_rows(rows(test), asked_for.out / "test.jsonl")

    def games(chance: random.Random) -> list[Conversation]:
        drawn = chance.choices(train, k=GAMES)
        return [game(*each, halves=chance.random() < HALVING) for each in drawn]

    write_weights(folder, tokenizer, games, asked_for.steps)


if __name__ == "__main__":
    main()
