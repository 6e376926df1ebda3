"""A small Qwen2 in a folder that every release of transformers reads: only keys that none has renamed."""

import json
from pathlib import Path
from typing import Any

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
WORDS = (PAD, START, END, *"0123456789+=abcdefghijklmnopqrstuvwxyz")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)
# Weights this large make the distributions of the next token uneven, so that a wrong log-probability shows.
DEVIATION = 0.18
SHAPE = {
    "vocab_size": len(WORDS),
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": DEVIATION,
    "tie_word_embeddings": True,
    "eos_token_id": WORDS.index(END),
    "pad_token_id": WORDS.index(PAD),
    "bos_token_id": None,
}


def write_small_model(folder: Path, sampling: dict[str, Any] | None = None) -> Path:
    """Writes model and tokenizer. sampling: what generation_config.json says beside the special tokens."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    Qwen2ForCausalLM(Qwen2Config(**SHAPE)).save_pretrained(folder)
    written = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "rope_theta": 10000.0, **SHAPE}
    ends = {"eos_token_id": WORDS.index(END), "pad_token_id": WORDS.index(PAD)}
    for name, content in {
        "config": written,
        "generation_config": ends | (sampling or {}),
        "tokenizer": _tokenizer(),
        "tokenizer_config": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": 128,
            "padding_side": "left",
            "eos_token": END,
            "pad_token": PAD,
            "clean_up_tokenization_spaces": False,
            "chat_template": TEMPLATE,
        },
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1))
    return folder


def _tokenizer() -> dict[str, Any]:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(WORDS)}, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokens.decoder = decoders.ByteLevel()
    tokens.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in WORDS[:3]])
    written: dict[str, Any] = json.loads(tokens.to_str())
    return written


def prompt_tokens(question: str) -> list[int]:
    """What the model is asked for a row: the template of one user's message, and the start of the answer."""
    start, end = WORDS.index(START), WORDS.index(END)
    return [start, *(WORDS.index(character) for character in question), end, start]


def text_of(completion: list[int]) -> str:
    """What a reward sees of the tokens of a completion."""
    return "".join(WORDS[token] for token in completion if token > WORDS.index(END))
