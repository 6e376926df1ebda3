"""Makes the calculator's data and its small model that seldom calculates: `python make_model.py`.

The model (Qwen2, 0.4 M parameters) is trained from nothing on products of two-digit numbers. 7 times in 10 it
guesses: it rounds both numbers to tens and multiplies these, so 47*38= is answered 2000. 3 times in 10 it calls
the tool that its chat template shows to it, and answers what the tool replied. Multiplying is beyond a model of
this size, so what GRPO can teach it afterwards is a habit: to call, which pays.

Neither this script nor GRPO trains on the rows of test.jsonl: 12 % of the unordered pairs, with mirrors.
The same versions on the same kind of processor write the same bytes; elsewhere the weights differ by
rounding. It takes about 170 CPU seconds. The number of steps was chosen with a look at held-out numbers.
The shipped files were made with torch 2.13.0, transformers 5.23.0 and tokenizers 0.23.3.
"""

import argparse
import json
import math
import random
import string
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

HERE = Path(__file__).resolve().parent
SEED = 0
HELD_OUT_SHARE = 0.12
CALL_PROBABILITY = 0.3
STEPS = 400
BATCH_SIZE = 128
PEAK_LEARNING_RATE = 3e-3
FINAL_LEARNING_RATE_SHARE = 0.02
WARMUP_STEPS = 50
IGNORED_LABEL = -100

ALPHABET = string.printable[:95] + "\n"
ROLES = ("system", "user", "assistant", "tool")
MARKS = ("<tools>", "</tools>", "<tool_call>", "</tool_call>")
# What a call repeats each time is one token each, so that calls are short.
PIECES = ('{"name": "', '", "arguments": {"', '": "', '"}}', "calculate", "expression")
PAD, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = """\
{%- if tools -%}
<|im_start|>system
<tools>
{%- for tool in tools -%}
{{ '' if loop.first else '\\n' }}{{ tool.function.name }}({{ tool.function.parameters.properties | join(', ') }})
{%- endfor -%}
</tools><|im_end|>
{% endif -%}
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] -%}
<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>
{%- endfor -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""
RESPONSE_TEMPLATE: dict[str, object] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {
            "open": "<tool_call>",
            "close_pattern": r"</tool_call>\s*",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<\|im_end\|>\s*", "content": "text"},
    },
}


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
    def question(self) -> str:
        """What the model reads: 47*38=."""
        return f"{self.expression}="

    @property
    def answer(self) -> int:
        """The right answer."""
        return self.left * self.right

    @property
    def guess(self) -> int:
        """The product of both numbers rounded to tens, a five at the end upward."""
        return (self.left + 5) // 10 * 10 * ((self.right + 5) // 10 * 10)


def split_products() -> tuple[list[Product], list[Product]]:
    """All products as (train, test); a product and its mirror are always on the same side."""
    unordered = [(a, b) for a in range(10, 100) for b in range(a, 100)]
    held_out = set(random.Random(SEED).sample(unordered, int(HELD_OUT_SHARE * len(unordered))))
    train: list[Product] = []
    test: list[Product] = []
    for a in range(10, 100):
        for b in range(10, 100):
            (test if (min(a, b), max(a, b)) in held_out else train).append(Product(a, b))
    return train, test


def write_rows(products: list[Product], path: Path) -> None:
    """Writes the products as jsonl, shuffled, so that the first rows are as good as any."""
    shuffled = random.Random(SEED).sample(products, len(products))
    rows = [json.dumps({"question": p.question, "answer": str(p.answer)}) for p in shuffled]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def make_tokenizer() -> Tokenizer:
    """A byte-level BPE without merges: one token per character, role, mark and piece of a call."""
    byte_letter = {" ": "\u0120", "\n": "\u010a"}
    vocabulary = {byte_letter.get(character, character): i for i, character in enumerate(ALPHABET)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in (*ROLES, *MARKS, *PIECES)])
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in (PAD, TURN_START, TURN_END)])
    return tokenizer


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """The id of a token of the vocabulary; raises KeyError for any other."""
    return tokenizer.get_vocab()[token]


def write_json(path: Path, value: dict[str, object]) -> None:
    """Writes indented JSON with a final newline."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def write_model_settings(folder: Path, tokenizer: Tokenizer) -> None:
    """Writes everything of the model folder but the weights, by hand, as small as it can be."""
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
        "response_template": RESPONSE_TEMPLATE,
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


def turns(product: Product, *, calls: bool) -> list[tuple[str, bool]]:
    """A conversation as the chat template writes it, in parts: (text, whether the model is to say it)."""
    asked = f"<|im_start|>system\n<tools>calculate(expression)</tools><|im_end|>\n<|im_start|>user\n{product.question}"
    before = (f"{asked}<|im_end|>\n<|im_start|>assistant\n", False)
    if not calls:
        return [before, (f"{product.guess}<|im_end|>", True)]
    arguments = json.dumps({"expression": product.expression})
    call = f'<tool_call>{{"name": "calculate", "arguments": {arguments}}}</tool_call><|im_end|>'
    reply = f"\n<|im_start|>tool\n{product.answer}<|im_end|>\n<|im_start|>assistant\n"
    return [before, (call, True), (reply, False), (f"{product.answer}<|im_end|>", True)]


def draw_batch(
    products: list[Product], tokenizer: Tokenizer, chance: random.Random
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels (BATCH_SIZE, T) of products drawn afresh, each guessed or calculated by its own toss.

    Only what the model says is labelled; rows are padded on the right.
    """
    rows: list[list[int]] = []
    labels: list[list[int]] = []
    for drawn in chance.choices(products, k=BATCH_SIZE):
        row: list[int] = []
        label: list[int] = []
        for text, is_said in turns(drawn, calls=chance.random() < CALL_PROBABILITY):
            ids = tokenizer.encode(text).ids
            row += ids
            label += ids if is_said else [IGNORED_LABEL] * len(ids)
        rows.append(row)
        labels.append(label)
    width = max(len(row) for row in rows)
    pad = token_id(tokenizer, PAD)
    return (
        torch.tensor([row + [pad] * (width - len(row)) for row in rows]),
        torch.tensor([label + [IGNORED_LABEL] * (width - len(label)) for label in labels]),
    )


def warm_start(folder: Path, products: list[Product], tokenizer: Tokenizer, steps: int) -> Qwen2ForCausalLM:
    """The model trained on guesses and calls, from a seeded random start."""
    torch.manual_seed(SEED)
    chance = random.Random(SEED)
    model = Qwen2ForCausalLM(Qwen2Config.from_pretrained(folder)).train()
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.05)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        input_ids, labels = draw_batch(products, tokenizer, chance)
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
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write into (default: the script's)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"optimizer steps (default: {STEPS})")
    options = parser.parse_args()
    # One thread: the order of floating-point sums, and with it the bytes, depends on the number of threads.
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    train, test = split_products()
    folder = options.out / "model"
    tokenizer = make_tokenizer()
    write_model_settings(folder, tokenizer)
    write_rows(train, options.out / "train.jsonl")
    write_rows(test, options.out / "test.jsonl")
    save_weights(warm_start(folder, train, tokenizer, options.steps), folder)
    report(folder, test)


if __name__ == "__main__":
    main()
