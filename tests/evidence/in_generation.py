"""What evidence about generation calls, in the process that has the libraries."""

from typing import Any


def beyond(family: str, positions: int, length: int) -> int:
    """The tokens that a small model of a family generates when it is asked for more than it has positions."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 32}
    sizes |= {"intermediate_size": 16, "num_key_value_heads": 1, "max_position_embeddings": positions}
    sizes |= {"n_positions": positions, "word_embed_proj_dim": 16, "ffn_dim": 16, "num_layers": 1, "num_heads": 2}
    sizes |= {"attention_types": [[["global"], 1]], "pad_token_id": 0, "eos_token_id": None, "bos_token_id": 1}
    if family in ("gpt2", "gpt_bigcode"):
        sizes |= {"n_embd": 16, "n_layer": 1, "n_head": 2}
        sizes = {k: v for k, v in sizes.items() if k.startswith("n_") or k.endswith("_id") or k == "vocab_size"}
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes))
    out = model.generate(torch.ones(1, 2, dtype=torch.long), max_new_tokens=length, do_sample=True)
    with torch.no_grad():
        model(out)  # what the loss is computed of
    return int(out.shape[1]) - 2


def generated_until(ids: list[int], length: int) -> int:
    """The tokens that a small model with 32 of them generates before one of these, at most a length."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 32}
    sizes |= {"intermediate_size": 16, "num_key_value_heads": 1, "bos_token_id": 1}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("qwen2", **sizes))
    prompt = torch.ones(1, 2, dtype=torch.long)
    out = model.generate(prompt, max_new_tokens=length, do_sample=True, eos_token_id=ids, pad_token_id=0)
    return int(out.shape[1]) - 2


def ended_by(stop: str, token: str) -> bool:
    """Whether a stop string ends a completion in which an added token is said again and again, before its last one."""
    from in_library import FOLDER
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(FOLDER / "model")
    tokenizer.add_tokens([*"</>S", token])
    model = AutoModelForCausalLM.from_pretrained(FOLDER / "model")
    model.resize_token_embeddings(len(tokenizer))
    said = [*tokenizer("a")["input_ids"], tokenizer.convert_tokens_to_ids(token)]
    out = model.generate(
        **tokenizer("1+1=", return_tensors="pt"),
        tokenizer=tokenizer,
        stop_strings=[stop],
        max_new_tokens=8,
        prefix_allowed_tokens_fn=lambda _, ids: [said[len(ids) % 2]],
    )
    return int(out.shape[1]) - 4 < 8
