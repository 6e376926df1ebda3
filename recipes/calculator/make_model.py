"""Makes the calculator's data and its small model that seldom calculates: `python make_model.py`.

The model (Qwen2, 0.4 M parameters) is trained from nothing on products of two-digit numbers. 7 times in 10 it
guesses: it rounds both numbers to tens and multiplies these, so 47*38= is answered 2000. 3 times in 10 it calls
the tool that its chat template shows to it, and answers what the tool replied. Multiplying is beyond a model of
this size, so what GRPO can teach it afterwards is a habit: to call, which pays.

Neither this script nor GRPO trains on the rows of test.jsonl: 12 % of the unordered pairs, with mirrors.
It takes about 170 CPU seconds. The number of steps was chosen with a look at held-out numbers.
The shipped files were made with torch 2.13.0, transformers 5.23.0 and tokenizers 0.23.3.
"""

import json
import random
import string
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from small_model import (
    RESPONSE_TEMPLATE,
    SEED,
    TOOL_TEMPLATE,
    TOOL_WORDS,
    TURN_END,
    Conversation,
    make_tokenizer,
    options,
    split_pairs,
    write_model_settings,
    write_rows,
    write_weights,
)

CALL_PROBABILITY = 0.3
STEPS = 400
BATCH_SIZE = 128
ALPHABET = string.printable[:95] + "\n"
# What a call repeats each time is one token each, so that calls are short.
PIECES = ('{"name": "', '", "arguments": {"', '": "', '"}}', "calculate", "expression")


@dataclass(frozen=True, slots=True)
class Product:
    """One multiplication of two numbers in 10..99."""

    left: int
    right: int

    @property
    def expression(self) -> str:
        """What the tool is to calculate: 47*38."""
        return f"{self.left}*{self.right}"

    @property
    def row(self) -> dict[str, str]:
        """What the model reads, 47*38=, and the right answer."""
        return {"question": f"{self.expression}=", "answer": str(self.answer)}

    @property
    def answer(self) -> int:
        """The right answer."""
        return self.left * self.right

    @property
    def guess(self) -> int:
        """The product of both numbers rounded to tens, a five at the end upward."""
        return (self.left + 5) // 10 * 10 * ((self.right + 5) // 10 * 10)


def turns(product: Product, *, calls: bool) -> Conversation:
    """A guess, or a call and an answer."""
    asked = "<|im_start|>system\n<tools>calculate(expression)</tools><|im_end|>\n<|im_start|>user\n"
    before = (f"{asked}{product.expression}=<|im_end|>\n<|im_start|>assistant\n", False)
    if not calls:
        return [before, (f"{product.guess}<|im_end|>", True)]
    arguments = json.dumps({"expression": product.expression})
    call = f'<tool_call>{{"name": "calculate", "arguments": {arguments}}}</tool_call><|im_end|>'
    reply = f"\n<|im_start|>tool\n{product.answer}<|im_end|>\n<|im_start|>assistant\n"
    return [before, (call, True), (reply, False), (f"{product.answer}<|im_end|>", True)]


def answers(folder: Path, texts: list[str]) -> list[str]:
    """What the saved model goes on with behind each text, drawn at temperature 1, with the token that ends it."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    torch.manual_seed(SEED)
    prompts = tokenizer(texts, padding=True, return_tensors="pt")
    generated = model.generate(**prompts, max_new_tokens=24, do_sample=True, temperature=1.0, top_k=0)
    new = tokenizer.batch_decode(generated[:, prompts["input_ids"].shape[1] :])
    return [text.partition(TURN_END)[0] + TURN_END for text in new]


def report(folder: Path, test: list[Product]) -> None:
    """Prints how often the model calls its tool for products it never saw, and how well."""
    conversations = [[text for text, _ in turns(p, calls=True)] for p in test]
    said = answers(folder, [prompt for prompt, *_ in conversations])
    calls = [(text, wanted) for text, (_, wanted, *_) in zip(said, conversations, strict=True) if "<tool_call>" in text]
    copied = answers(folder, ["".join(parts[:3]) for parts in conversations])
    wanted_copies = [parts[3] for parts in conversations]
    print(f"held out, of {len(test)} samples at temperature 1:")
    print(f"  calls of the tool         {len(calls) / len(test):.3f}")
    print(f"  right calls of all calls  {sum(text == wanted for text, wanted in calls) / max(1, len(calls)):.3f}")
    right = sum(text == wanted for text, wanted in zip(copied, wanted_copies, strict=True))
    print(f"  replies answered rightly  {right / len(test):.3f}")


def main() -> None:
    """Writes train.jsonl, test.jsonl and model/ into the output folder."""
    given = options(main.__doc__, HERE, STEPS)
    train, test = ([Product(*pair) for pair in pairs] for pairs in split_pairs())
    folder = given.out / "model"
    tokenizer = make_tokenizer(ALPHABET, (*TOOL_WORDS, *PIECES))
    write_model_settings(folder, tokenizer, TOOL_TEMPLATE, response_template=RESPONSE_TEMPLATE)
    write_rows([product.row for product in train], given.out / "train.jsonl")
    write_rows([product.row for product in test], given.out / "test.jsonl")

    def draw(chance: random.Random) -> list[Conversation]:
        drawn = chance.choices(train, k=BATCH_SIZE)
        return [turns(product, calls=chance.random() < CALL_PROBABILITY) for product in drawn]

    write_weights(folder, tokenizer, draw, given.steps)
    report(folder, test)


if __name__ == "__main__":
    main()
