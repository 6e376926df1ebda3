"""What the experiments with TRL alone share: tiny models, a GRPOConfig, and a look at what TRL computes.

Everything is written as for the release at hand, and nothing of TRL is changed: what it computes is seen through
sys.setprofile, where its functions return.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
WORDS = [PAD, START, END, *"0123456789+=abcdefghijklmnopqrstuvwxyz"]
PROMPTS = [f"{a}+{b}=" for a in range(2, 6) for b in range(2, 6)]
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
GPT2_SIZES = {"n_embd": 64, "n_layer": 2, "n_head": 4, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(WORDS)}, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokens.decoder = decoders.ByteLevel()
    special = {"pad_token": PAD, "eos_token": END, "additional_special_tokens": [START]}
    names = ["input_ids", "attention_mask"]  # those of the tokenizers of these classes: no token_type_ids
    return PreTrainedTokenizerFast(tokenizer_object=tokens, padding_side="left", model_input_names=names, **special)


def model_folder(folder: Path, kind: str = "Qwen2") -> Path:
    """A folder with an untrained model of a class and a tokenizer of single characters, made once for a stack.

    kind: "Qwen2", "Qwen3", "Llama" or "GPT2". Raises AttributeError where transformers has no such class.
    """
    import torch
    import transformers

    made = folder.parent / "models" / kind
    if not made.exists():
        ids = {"vocab_size": len(WORDS), "pad_token_id": 0, "eos_token_id": 2, "bos_token_id": None}
        sizes = GPT2_SIZES if kind == "GPT2" else SIZES
        config = getattr(transformers, f"{kind}Config")(**sizes, **ids, initializer_range=0.1, tie_word_embeddings=True)
        torch.manual_seed(0)
        name = "GPT2LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM"
        unfinished = folder / f"{kind}-{os.getpid()}"
        getattr(transformers, name)(config).save_pretrained(unfinished)
        _tokenizer().save_pretrained(unfinished)
        made.parent.mkdir(exist_ok=True)
        with contextlib.suppress(OSError):  # another rank was first
            unfinished.rename(made)
    return made


def grpo_config(folder: Path, **arguments: Any) -> Any:
    """A GRPOConfig for two steps of eight short completions on the CPU, in float32."""
    from trl import GRPOConfig

    quiet = {"report_to": "none", "disable_tqdm": True, "logging_steps": 1, "save_strategy": "no"}
    small = {"per_device_train_batch_size": 8, "num_generations": 8, "max_completion_length": 8, "max_steps": 2}
    exact = {"bf16": False, "beta": 0.0, "temperature": 1.0, "learning_rate": 1e-2, "use_cpu": True, "seed": 3}
    plain = {"gradient_checkpointing": False}
    return GRPOConfig(output_dir=str(folder / "out"), **{**quiet, **small, **exact, **plain, **arguments})


def letters(completions: list[str], **_: Any) -> list[float]:
    """A reward with a different value for almost every completion."""
    return [sum(map(ord, text)) / 1000 for text in completions]


def trainer(
    config: Any, model: Any, *, prompts: list[str] | None = None, is_observed: bool = False, **parts: Any
) -> Any:
    """A GRPOTrainer as its users build it. model: a folder's path as text, or an instance. is_observed: for shims."""
    from datasets import Dataset
    from trl import GRPOTrainer

    kind = GRPOTrainer
    if is_observed:
        from grpo_recipes.worker.trainer.observed import ObservedTrainer as kind

    rows = Dataset.from_list([{"prompt": prompt} for prompt in prompts or PROMPTS])
    return kind(model=model, args=config, train_dataset=rows, reward_funcs=letters, **parts)


Event = Callable[[FrameType, Any], None]


@contextlib.contextmanager
def watching(calls: dict[str, Event], returns: dict[str, Event]) -> Iterator[None]:
    """Calls back at the beginning and at the end of Python functions.

    By the qualified names of the functions: `forward` of a class is "Qwen2ForCausalLM.forward". What is given: the
    frame, with the local variables; what was returned, None at the beginning.
    """

    def seen(frame: FrameType, event: str, value: Any) -> None:
        table = {"call": calls, "return": returns}.get(event, {})
        if frame.f_code.co_qualname in table:
            table[frame.f_code.co_qualname](frame, value if event == "return" else None)

    sys.setprofile(seen)
    try:
        yield
    finally:
        sys.setprofile(None)
