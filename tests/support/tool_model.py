"""Makes a tiny model with a tool template, trained to call a tool before it answers."""

import random
from pathlib import Path
from typing import Any

CALL, END_OF_CALL = "<tool_call>", "</tool_call>"
# Makes a call short: each constant part of it is one token.
PIECES = ('{"name": "', '", "arguments": {"a": ', ', "b": ', "}}", "add", "fail")
CHARACTERS = "0123456789+=-.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ{}'\":,()[] _"
TEMPLATE = (
    "{% if tools %}<|im_start|>{% for tool in tools %}{{ tool.function.name }}{% endfor %}<|im_end|>{% endif %}"
    "{% for message in messages %}<|im_start|>{{ 'r' if message.role == 'tool' }}{{ message.content }}"
    '{% for call in message.tool_calls or [] %}<tool_call>{{ \'{"name": "\' + call.function.name + \'", '
    '"arguments": \' }}{{ call.function.arguments | tojson }}}</tool_call>{% endfor %}<|im_end|>{% endfor %}'
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)
RESPONSE_TEMPLATE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>",
    "fields": {
        "tool_calls": {
            "open": CALL,
            "close": END_OF_CALL,
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close": "<|im_end|>", "content": "text"},
    },
}


def write_tool_model(folder: Path, steps: int = 120) -> Path:
    """Writes a Qwen2 of 100 thousand parameters that usually calls its tool, add or fail; returns the folder."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = _tokenizer()
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": len(tokenizer)}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.1}
    ids = {"eos_token_id": 2, "pad_token_id": 0, "bos_token_id": None, "tie_word_embeddings": True}
    model = Qwen2ForCausalLM(Qwen2Config(**sizes, **heads, **ids, max_position_embeddings=256))
    _teach(model, tokenizer, steps)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer() -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    # Byte-level tokenizers write a space as a different letter.
    words = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *CHARACTERS.replace(" ", "\u0120")]
    tokens = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(words)}, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokens.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokens, pad_token=words[0], eos_token=words[2], additional_special_tokens=[words[1]]
    )
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in (CALL, END_OF_CALL, *PIECES)])
    tokenizer.chat_template = TEMPLATE
    tokenizer.response_template = RESPONSE_TEMPLATE
    return tokenizer


def _teach(model: Any, tokenizer: Any, steps: int) -> None:
    """Trains the model on conversations of a sum, one or two calls with a reply each, and an answer."""
    import torch

    draw = random.Random(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.005)
    for _ in range(steps):
        texts = [_conversation(draw) for _ in range(16)]
        batch = tokenizer(texts, return_tensors="pt", padding=True)
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()


def _conversation(draw: random.Random) -> str:
    a, b, tool = draw.randrange(3, 20), draw.randrange(6, 100), draw.choice(("add", "fail"))
    text = f"<|im_start|>{tool}<|im_end|><|im_start|>{a}+{b}=<|im_end|>"
    for _ in range(draw.choice((1, 1, 2))):
        arguments = f'{{"a": {draw.randrange(10)}, "b": {draw.randrange(10)}}}'
        text += f'<|im_start|>{CALL}{{"name": "{tool}", "arguments": {arguments}}}{END_OF_CALL}<|im_end|>'
        text += f"<|im_start|>r{a + b}<|im_end|>"
    return f"{text}<|im_start|>{a + b}<|im_end|>"
