"""The model's folder has its weights, and its tokenizer makes tokens of a text.

What: a local model whose folder has no weights, lacks files that its index of weights names, or has pointers of Git LFS
instead of files; and a tokenizer that makes no tokens of a text.
Why: a run notices missing weights when it loads the model, on a cluster after the queue. For a folder without a
tokenizer, transformers 5 makes an empty one: each prompt has no tokens, and training goes on.
Fix: copy the missing files from the model that it was made from; `git lfs pull` downloads files of Git LFS.
Example: ./model has no weights
Source: transformers' modeling_utils.py (_get_resolved_checkpoint_files).
"""

import json
from collections.abc import Iterator
from pathlib import Path

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL069"
KEY = ("model", "model_name_or_path")
WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth")
INDEX = ".index.json"
# transformers takes the first of these that is there, and reads no other.
IN_ORDER = ("model.safetensors", f"model.safetensors{INDEX}", "pytorch_model.bin", f"pytorch_model.bin{INDEX}")
POINTER = b"version https://git-lfs"
LONGEST_POINTER = 1024
COPY = "copy them from the model that it was made from, or download it again"


def check(inputs: Seen) -> Iterator[Finding]:
    folder = Path(inputs.plan.model.path)
    if folder.is_dir():
        yield from _of_files(folder)
    tokenizer = inputs.tokenizer
    if tokenizer is not None and not tokenizer("1 + 1 = ?", add_special_tokens=False)["input_ids"]:
        yield mistake(
            f"the tokenizer of {folder} makes no tokens of a text",
            KEY,
            because="transformers makes an empty tokenizer for a folder without one, and each prompt has no tokens",
            fix="copy tokenizer.json and tokenizer_config.json from the model that it was made from",
        )


def _of_files(folder: Path) -> Iterator[Finding]:
    files = {path.name: path for path in folder.iterdir() if path.is_file()}
    weights = [name for name in files if name.endswith(WEIGHTS)]
    loaded = [name for name in weights if name.endswith(WEIGHTS[0])] or weights
    of_tokenizer = [name for name in files if name.startswith(("tokenizer", "vocab", "merges"))]
    pointers = sorted(name for name in (*loaded, *of_tokenizer) if _is_pointer(files[name]))
    if pointers:
        because = f"{join_items(pointers, 3)} only names what Git LFS would download"
        yield mistake(f"{folder} has pointers instead of files", KEY, because, fix=f"git -C {folder} lfs pull")
    index = next((name for name in IN_ORDER if name in files), "")
    named = _read_index(files[index]) if index.endswith(INDEX) else set[str]()
    if named is None:
        because = "it has no weight_map that can be read"
        yield mistake(f"{folder}: {index} names no files of weights", KEY, because, fix=COPY)
        return
    missing = sorted(named - files.keys())
    if not weights:
        yield mistake(f"{folder} has no weights", KEY, f"no file in it ends with {' or '.join(WEIGHTS)}", fix=COPY)
    elif missing:
        because = f"its index of weights also names {join_items(missing, 3)}"
        yield mistake(f"{folder} lacks {len(missing)} of {len(named)} files of weights", KEY, because, fix=COPY)


def _is_pointer(path: Path) -> bool:
    if path.stat().st_size > LONGEST_POINTER:
        return False
    with open(path, "rb") as file:
        return file.read(len(POINTER)) == POINTER


def _read_index(path: Path) -> set[str] | None:
    """Returns the files that an index of weights names, None if it is damaged."""
    try:
        listed = json.loads(path.read_bytes())["weight_map"].values()
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return {str(name) for name in listed}
