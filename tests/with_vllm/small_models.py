"""Models that say a known text: each token has one next token, so that each prompt has one completion.

The model is a Qwen2 of one layer that adds nothing to the residual stream: the embedding of a token is a unit vector,
and the row of the output layer that belongs to its next token answers to it with a large logit, all others with zero.
Sampling at temperature 1 then takes the next token with a probability of 1 - 1e-20.
"""

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAD, START, END, TURN, TOOL = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|end_of_turn|>", "<|tool|>"
SPECIAL = (PAD, START, END, TURN, TOOL)
LOOKUP = "<lookup>"
# Pieces of text: all printable ASCII, a word of its own, and the two bytes of é as byte-level tokenizers write them.
PIECES = ("Ġ", *map(chr, range(33, 127)), "search", "Ã", "©")
WORDS = (*SPECIAL, *PIECES, LOOKUP)
ROWS = 128
LOGIT = 50.0
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)


def write_chains(folder: Path, chains: Iterable[Iterable[str]], *, more_tokens: Iterable[str] = ()) -> Path:
    """Writes a model in which each token of a chain is followed by the next one of it; returns the folder.

    A token that ends a chain and begins none is followed by END. Raises ValueError for a token with two next ones.
    more_tokens: added, not special, behind those of WORDS.
    """
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    words = (*WORDS, *more_tokens)
    following = _following(chains)
    model = Qwen2ForCausalLM(Qwen2Config(**_shape(), vocab_size=ROWS))
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            tensor.fill_(1.0 if "norm" in name else 0.0)
        model.model.embed_tokens.weight.copy_(torch.eye(ROWS))
        for place, word in enumerate(words):
            # The norm before the output layer makes sqrt(ROWS) of the one of a unit vector.
            model.lm_head.weight[words.index(following.get(word, END)), place] = LOGIT / ROWS**0.5
    model.generation_config.eos_token_id = [words.index(END), words.index(TURN)]
    return _saved(model, folder, more_tokens)


def write_random(folder: Path, *, seed: int = 0) -> Path:
    """Writes a model that says anything and can learn, with a row for each token and none to spare."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(Qwen2Config(**_shape(), vocab_size=len(WORDS)))
    return _saved(model, folder, ())


def _saved(model: Any, folder: Path, more_tokens: Iterable[str]) -> Path:
    model.generation_config.pad_token_id = WORDS.index(PAD)
    model.save_pretrained(folder)
    write_tokenizer(folder, more_tokens=more_tokens)
    return folder


def write_tokenizer(folder: Path, *, more_tokens: Iterable[str] = ()) -> None:
    """Writes a byte-level tokenizer that reads a text character by character, save its added tokens."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_tokens(list(more_tokens)),
        eos_token=END,
        pad_token=PAD,
        padding_side="left",
        model_max_length=ROWS,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)


def ids_of(tokens: Iterable[str], *, more_tokens: Iterable[str] = ()) -> list[int]:
    """The ids of tokens by their own names."""
    words = (*WORDS, *more_tokens)
    return [words.index(token) for token in tokens]


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """Writes a .jsonl file of rows."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _following(chains: Iterable[Iterable[str]]) -> dict[str, str]:
    following: dict[str, str] = {}
    for chain in map(list, chains):
        for token, after in itertools.pairwise(chain):
            if following.setdefault(token, after) != after:
                raise ValueError(f"{token} is followed by {following[token]} and by {after}")
    return following


def _shape() -> dict[str, Any]:
    return {
        "hidden_size": ROWS,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": ROWS,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": WORDS.index(END),
        "pad_token_id": WORDS.index(PAD),
    }


def _tokens(more: list[str]) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(WORDS[:-1])}, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokens.decoder = decoders.ByteLevel()
    tokens.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in SPECIAL])
    tokens.add_tokens([AddedToken(word, special=False, normalized=False) for word in (LOOKUP, *more)])
    return tokens
