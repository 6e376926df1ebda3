"""Makes the quickstart's data and its small model that forgets to carry: `python make_model.py`.

The model (Qwen2, 0.4 M parameters) is trained from nothing on two-digit sums whose units carry is left out
7 times in 10: 17+25= is usually answered 32. It can add; its most likely answer forgets the carry. What GRPO
teaches it afterwards is therefore a habit, to carry, which it already follows in about 3 of 10 samples. It is
not taught arithmetic.

Neither this script nor GRPO trains on the rows of test.jsonl: 12 % of the unordered pairs, with mirrors.
The same versions on the same kind of processor write the same bytes; elsewhere the weights differ by
rounding. It takes about 100 CPU seconds. The number of steps was chosen with a look at held-out numbers.
The shipped files were made with torch 2.13.0, transformers 5.23.0 and tokenizers 0.23.3.
"""

import argparse
import json
import math
import random
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

HERE = Path(__file__).resolve().parent
SEED = 0
HELD_OUT_SHARE = 0.12
FORGET_PROBABILITY = 0.7
STEPS = 500
BATCH_SIZE = 256
PEAK_LEARNING_RATE = 3e-3
FINAL_LEARNING_RATE_SHARE = 0.02
WARMUP_STEPS = 50
IGNORED_LABEL = -100

ALPHABET = "0123456789+-*/=?.,:!<>() \nabcdefghijklmnopqrstuvwxyz"
ROLES = ("system", "user", "assistant")
PAD, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
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
    def has_units_carry(self) -> bool:
        """Whether the units add up to ten or more."""
        return self.left % 10 + self.right % 10 >= 10

    @property
    def answer_without_units_carry(self) -> int:
        """The answer of someone who forgets to carry from the units to the tens."""
        return self.answer - 10 * self.has_units_carry


def split_sums() -> tuple[list[Sum], list[Sum]]:
    """All sums as (train, test); a sum and its mirror are always on the same side."""
    unordered = [(a, b) for a in range(10, 100) for b in range(a, 100)]
    held_out = set(random.Random(SEED).sample(unordered, int(HELD_OUT_SHARE * len(unordered))))
    train: list[Sum] = []
    test: list[Sum] = []
    for a in range(10, 100):
        for b in range(10, 100):
            (test if (min(a, b), max(a, b)) in held_out else train).append(Sum(a, b))
    return train, test


def write_rows(sums: list[Sum], path: Path) -> None:
    """Writes the sums as jsonl, shuffled, so that the first rows are as good as any."""
    shuffled = random.Random(SEED).sample(sums, len(sums))
    rows = [json.dumps({"question": s.question, "answer": str(s.answer)}) for s in shuffled]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def make_tokenizer() -> Tokenizer:
    """A byte-level BPE without merges: one token per character, role and marker; 58 in all."""
    byte_letter = {" ": "\u0120", "\n": "\u010a"}
    vocabulary = {byte_letter.get(character, character): i for i, character in enumerate(ALPHABET)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(role, normalized=False) for role in ROLES])
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in (PAD, TURN_START, TURN_END)])
    return tokenizer


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """The id of a token of the vocabulary; raises KeyError for any other."""
    return tokenizer.get_vocab()[token]


def write_json(path: Path, value: dict[str, object]) -> None:
    """Writes indented JSON with a final newline."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def write_model_settings(folder: Path, tokenizer: Tokenizer) -> None:
    """Writes everything of the model folder but the weights.

    The JSON is written by hand in the form that transformers 4 and 5 both read: save_pretrained of 5.23.0
    names a tokenizer class and rope settings that 4 does not know.
    """
    pad_token_id, eos_token_id = token_id(tokenizer, PAD), token_id(tokenizer, TURN_END)
    token_ids: dict[str, object] = {"eos_token_id": eos_token_id, "pad_token_id": pad_token_id}
    config: dict[str, object] = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hidden_act": "silu",
        "max_position_embeddings": 512,
        "initializer_range": 0.05,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "attention_dropout": 0.0,
        "tie_word_embeddings": True,
        "use_cache": True,
        "torch_dtype": "float32",
        **token_ids,
    }
    tokenizer_config: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 512,
        "padding_side": "left",
        "model_input_names": ["input_ids", "attention_mask"],
        "eos_token": TURN_END,
        "pad_token": PAD,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", token_ids)
    write_json(folder / "tokenizer_config.json", tokenizer_config)
    tokenizer.save(str(folder / "tokenizer.json"))


def learning_rate(step: int, steps: int) -> float:
    """The rate of one step: linear warm-up, then a cosine down to the final share."""
    if step < WARMUP_STEPS:
        return PEAK_LEARNING_RATE * (step + 1) / WARMUP_STEPS
    progress = (step - WARMUP_STEPS) / max(1, steps - WARMUP_STEPS)
    cosine = 0.5 * (1 + math.cos(math.pi * progress))
    return PEAK_LEARNING_RATE * (FINAL_LEARNING_RATE_SHARE + (1 - FINAL_LEARNING_RATE_SHARE) * cosine)


def draw_batch(sums: list[Sum], tokenizer: Tokenizer, chance: random.Random) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels (BATCH_SIZE, T) of sums drawn afresh, each carry forgotten by its own toss.

    Only the answer and the end of the turn are labelled; rows are padded on the right.
    """
    rows: list[list[int]] = []
    labels: list[list[int]] = []
    for drawn in chance.choices(sums, k=BATCH_SIZE):
        forgets = chance.random() < FORGET_PROBABILITY
        answer = drawn.answer_without_units_carry if forgets else drawn.answer
        prompt_text = f"{TURN_START}user\n{drawn.question}{TURN_END}\n{TURN_START}assistant\n"
        prompt = tokenizer.encode(prompt_text).ids
        completion = tokenizer.encode(f"{answer}{TURN_END}").ids
        rows.append(prompt + completion)
        labels.append([IGNORED_LABEL] * len(prompt) + completion)
    width = max(len(row) for row in rows)
    pad = token_id(tokenizer, PAD)
    return (
        torch.tensor([row + [pad] * (width - len(row)) for row in rows]),
        torch.tensor([label + [IGNORED_LABEL] * (width - len(label)) for label in labels]),
    )


def warm_start(folder: Path, sums: list[Sum], tokenizer: Tokenizer, steps: int) -> Qwen2ForCausalLM:
    """The model trained on sums with forgotten carries, from a seeded random start."""
    torch.manual_seed(SEED)
    chance = random.Random(SEED)
    model = Qwen2ForCausalLM(Qwen2Config.from_pretrained(folder)).train()
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.05)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        input_ids, labels = draw_batch(sums, tokenizer, chance)
        logits = model(input_ids=input_ids).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED_LABEL
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1}/{steps}  loss {loss.item():.4f}", flush=True)
    return model


def save_weights(model: Qwen2ForCausalLM, folder: Path) -> None:
    """Writes model.safetensors; the output layer is the embedding and is not stored twice."""
    weights = {name: value for name, value in model.state_dict().items() if name != "lm_head.weight"}
    (folder / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))


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
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write into (default: the script's)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"optimizer steps (default: {STEPS})")
    options = parser.parse_args()
    # One thread: the order of floating-point sums, and with it the bytes, depends on the number of threads.
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    train, test = split_sums()
    folder = options.out / "model"
    tokenizer = make_tokenizer()
    write_model_settings(folder, tokenizer)
    write_rows(train, options.out / "train.jsonl")
    write_rows(test, options.out / "test.jsonl")
    save_weights(warm_start(folder, train, tokenizer, options.steps), folder)
    report(folder, test)


if __name__ == "__main__":
    main()
