"""Makes the model that the tests of the pinned stack train."""

from pathlib import Path

CHARACTERS = "0123456789+=abcdefghijklmnopqrstuvwxyz"
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)


def write_tiny_model(folder: Path, positions: int = 128) -> Path:
    """Writes an untrained Qwen2 of 100 thousand parameters and a tokenizer of single characters; returns the folder."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    words = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *CHARACTERS]
    tokens = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(words)}, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokens.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokens, pad_token=words[0], eos_token=words[2], additional_special_tokens=[words[1]]
    )
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": len(words)}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.1}
    ids = {"eos_token_id": 2, "pad_token_id": 0, "bos_token_id": None, "tie_word_embeddings": True}
    Qwen2ForCausalLM(Qwen2Config(**sizes, **heads, **ids, max_position_embeddings=positions)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
