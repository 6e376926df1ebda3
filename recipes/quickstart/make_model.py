"""Makes the quickstart's data and its small model that forgets to carry: `python make_model.py`.

The model (Qwen2, 0.4 M parameters) is trained from nothing on two-digit sums whose units carry is left out
7 times in 10: 17+25= is usually answered 32. It can add; its most likely answer forgets the carry. What GRPO
teaches it afterwards is therefore a habit, to carry, which it already follows in about 3 of 10 samples. It is
not taught arithmetic.

Neither this script nor GRPO trains on the rows of test.jsonl: 12 % of the unordered pairs, with mirrors.
It takes about 100 CPU seconds. The number of steps was chosen with a look at held-out numbers.
The shipped files were made with torch 2.13.0, transformers 5.23.0 and tokenizers 0.23.3.
"""

import random
import sys
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from small_model import (
    TURN_END,
    TURN_START,
    Conversation,
    make_tokenizer,
    options,
    split_pairs,
    write_model_settings,
    write_rows,
    write_weights,
)

FORGET_PROBABILITY = 0.7
STEPS = 500
BATCH_SIZE = 256
ALPHABET = "0123456789+-*/=?.,:!<>() \nabcdefghijklmnopqrstuvwxyz"
ROLES = ("system", "user", "assistant")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Sum:
    """One addition of two numbers in 10..99."""

    left: int
    right: int

    @property
    def question(self) -> str:
        """What the model reads: 17+25=."""
        return f"{self.left}+{self.right}="

    @property
    def answer(self) -> int:
        """The right answer."""
        return self.left + self.right

    @property
    def row(self) -> dict[str, str]:
        """What is written of it."""
        return {"question": self.question, "answer": str(self.answer)}

    @property
    def has_units_carry(self) -> bool:
        """Whether the units add up to ten or more."""
        return self.left % 10 + self.right % 10 >= 10

    @property
    def answer_without_units_carry(self) -> int:
        """The answer of someone who forgets to carry from the units to the tens."""
        return self.answer - 10 * self.has_units_carry


def turns(drawn: Sum, *, forgets: bool) -> Conversation:
    """A question and its answer, right or with the carry forgotten."""
    answer = drawn.answer_without_units_carry if forgets else drawn.answer
    prompt = f"{TURN_START}user\n{drawn.question}{TURN_END}\n{TURN_START}assistant\n"
    return [(prompt, False), (f"{answer}{TURN_END}", True)]


def greedy_right(folder: Path, sums: list[Sum]) -> list[bool]:
    """Whether the most likely answer of the saved model is right, one per sum."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    messages = [[{"role": "user", "content": s.question}] for s in sums]
    prompts = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
    )
    generated = model.generate(**prompts, max_new_tokens=6, do_sample=False)
    answers = tokenizer.batch_decode(generated[:, prompts["input_ids"].shape[1] :], skip_special_tokens=True)
    return [text == str(s.answer) for text, s in zip(answers, sums, strict=True)]


def report(folder: Path, test: list[Sum]) -> None:
    """Prints what the model gets right of the sums it never saw."""
    right = greedy_right(folder, test)
    carry = [r for r, s in zip(right, test, strict=True) if s.has_units_carry]
    other = [r for r, s in zip(right, test, strict=True) if not s.has_units_carry]
    print(f"held out, most likely answer right: {sum(right) / len(right):.3f} of {len(right)}")
    print(f"  with a units carry    {sum(carry) / len(carry):.3f} of {len(carry)}")
    print(f"  without a units carry {sum(other) / len(other):.3f} of {len(other)}")


def main() -> None:
    """Writes train.jsonl, test.jsonl and model/ into the output folder."""
    given = options(main.__doc__, HERE, STEPS)
    train, test = ([Sum(*pair) for pair in pairs] for pairs in split_pairs())
    folder = given.out / "model"
    tokenizer = make_tokenizer(ALPHABET, ROLES)
    write_model_settings(folder, tokenizer, CHAT_TEMPLATE)
    write_rows([one.row for one in train], given.out / "train.jsonl")
    write_rows([one.row for one in test], given.out / "test.jsonl")

    def draw(chance: random.Random) -> list[Conversation]:
        drawn = chance.choices(train, k=BATCH_SIZE)
        return [turns(one, forgets=chance.random() < FORGET_PROBABILITY) for one in drawn]

    write_weights(folder, tokenizer, draw, given.steps)
    report(folder, test)


if __name__ == "__main__":
    main()
