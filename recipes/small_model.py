"""What the scripts share that make the small models of the recipes, trained from nothing; most are a Qwen2 of 0.4 M.

The same versions on the same kind of processor write the same bytes; elsewhere the weights differ by rounding.
"""

import argparse
import json
import math
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from safetensors.torch import save
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import Qwen2Config, Qwen2ForCausalLM

SEED = 0
HELD_OUT_SHARE = 0.12
PEAK_LEARNING_RATE = 3e-3
FINAL_LEARNING_RATE_SHARE = 0.02
WARMUP_STEPS = 50
IGNORED_LABEL = -100

PAD, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TOOL_WORDS = ("system", "user", "assistant", "tool", "<tools>", "</tools>", "<tool_call>", "</tool_call>")
TOOL_TEMPLATE = """\
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

Conversation = list[tuple[str, bool]]
"""As the chat template writes it, in parts: (text, whether the model is to say it)."""


def options(writes: str | None, out: Path, steps: int) -> argparse.Namespace:
    """out and steps of the command line. One thread: the order of floating-point sums depends on their number."""
    parser = argparse.ArgumentParser(description=writes)
    parser.add_argument("--out", type=Path, default=out, help="folder to write into (default: the script's)")
    parser.add_argument("--steps", type=int, default=steps, help=f"optimizer steps (default: {steps})")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    return parser.parse_args()


def split_pairs() -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """All pairs of numbers in 10..99 as (train, test); a pair and its mirror are always on the same side."""
    unordered = [(a, b) for a in range(10, 100) for b in range(a, 100)]
    held_out = set(random.Random(SEED).sample(unordered, int(HELD_OUT_SHARE * len(unordered))))
    pairs = [(a, b) for a in range(10, 100) for b in range(10, 100)]
    is_held_out = [(min(pair), max(pair)) in held_out for pair in pairs]
    return (
        [pair for pair, out in zip(pairs, is_held_out, strict=True) if not out],
        [pair for pair, out in zip(pairs, is_held_out, strict=True) if out],
    )


def write_rows(rows: list[dict[str, str]], path: Path) -> None:
    """Writes jsonl, shuffled, so that the first rows are as good as any."""
    shuffled = random.Random(SEED).sample(rows, len(rows))
    path.write_text("".join(json.dumps(row) + "\n" for row in shuffled), encoding="utf-8")


def make_tokenizer(alphabet: str, words: Iterable[str]) -> Tokenizer:
    """A byte-level BPE without merges: one token per character, word and marker of turns."""
    byte_letter = {" ": "\u0120", "\n": "\u010a"}
    vocabulary = {byte_letter.get(character, character): i for i, character in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words])
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in (PAD, TURN_START, TURN_END)])
    return tokenizer


def write_model_settings(folder: Path, tokenizer: Tokenizer, chat_template: str, **more: object) -> None:
    """Writes everything of the model folder but the weights. more: of tokenizer_config.json.

    The JSON is written by hand in the form that transformers 4 and 5 both read: save_pretrained of 5.23.0
    names a tokenizer class and rope settings that 4 does not know.
    """
    vocabulary = tokenizer.get_vocab()
    token_ids: dict[str, object] = {"eos_token_id": vocabulary[TURN_END], "pad_token_id": vocabulary[PAD]}
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
        "chat_template": chat_template,
        **more,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", token_ids)
    write_json(folder / "tokenizer_config.json", tokenizer_config)
    tokenizer.save(str(folder / "tokenizer.json"))


def write_weights(
    folder: Path, tokenizer: Tokenizer, draw: Callable[[random.Random], list[Conversation]], steps: int
) -> None:
    """Writes model.safetensors: the model of config.json, trained from a seeded random start on what is drawn.

    The output layer is the embedding and is not stored twice. draw: the conversations of one step.
    """
    torch.manual_seed(SEED)
    chance = random.Random(SEED)
    model = Qwen2ForCausalLM(Qwen2Config.from_pretrained(folder)).train()

    def loss() -> torch.Tensor:
        input_ids, labels = _batch(draw(chance), tokenizer)
        return loss_of(model(input_ids=input_ids).logits, labels)

    fit(model, loss, steps)
    weights = {name: value for name, value in model.state_dict().items() if name != "lm_head.weight"}
    (folder / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))


def loss_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean loss of the labelled tokens."""
    return torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED_LABEL
    )


def fit(model: torch.nn.Module, loss_of_step: Callable[[], torch.Tensor], steps: int) -> None:
    """Trains a model for some steps, each on a loss of its own."""
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.05)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = _learning_rate(step, steps)
        loss = loss_of_step()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1}/{steps}  loss {loss.item():.4f}", flush=True)


def _batch(conversations: list[Conversation], tokenizer: Tokenizer) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels (B, T); only what the model says is labelled, rows are padded on the right."""
    rows: list[list[int]] = []
    labels: list[list[int]] = []
    for conversation in conversations:
        row: list[int] = []
        label: list[int] = []
        for text, is_said in conversation:
            ids = tokenizer.encode(text).ids
            row += ids
            label += ids if is_said else [IGNORED_LABEL] * len(ids)
        rows.append(row)
        labels.append(label)
    width = max(len(row) for row in rows)
    pad = tokenizer.get_vocab()[PAD]
    return (
        torch.tensor([row + [pad] * (width - len(row)) for row in rows]),
        torch.tensor([label + [IGNORED_LABEL] * (width - len(label)) for label in labels]),
    )


def _learning_rate(step: int, steps: int) -> float:
    """The rate of one step: linear warm-up, then a cosine down to the final share."""
    if step < WARMUP_STEPS:
        return PEAK_LEARNING_RATE * (step + 1) / WARMUP_STEPS
    progress = (step - WARMUP_STEPS) / max(1, steps - WARMUP_STEPS)
    cosine = 0.5 * (1 + math.cos(math.pi * progress))
    return PEAK_LEARNING_RATE * (FINAL_LEARNING_RATE_SHARE + (1 - FINAL_LEARNING_RATE_SHARE) * cosine)


def write_json(path: Path, value: dict[str, object]) -> None:
    """Writes a file of settings."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
