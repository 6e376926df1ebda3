"""Converts an exported model to GGUF with llama.cpp's converter, and compares it with the trained model.

The converter reads the exported folder. The proof loads the file with transformers, which takes configuration and
weights from it and needs the package gguf. llama.cpp's own computation is not tested.
Source: `convert_hf_to_gguf.py` of llama.cpp; transformers, integrations/ggml.py.
"""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.host.installing import install_command
from grpo_recipes.contract.host.processes import die_with_parent
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.ends.ends import Ends
from grpo_recipes.worker.export.proof import ExportProof

TYPES: Mapping[str, str] = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
CONVERTER = "convert_hf_to_gguf.py"
_TOKENS, _END = "tokenizer.ggml.tokens", "tokenizer.ggml.eos_token_id"
_LONGEST_LINE = 300
_MISSING = re.compile(r"^ModuleNotFoundError: No module named '(\w+)")


def check_reader() -> None:
    """Raises Refused if the package that reads GGUF files is not installed."""
    if importlib.util.find_spec("gguf") is None:
        raise Refused.of(
            "a GGUF file cannot be verified here, nothing was written",
            because="transformers reads it with the package gguf, which is not installed",
            fix=install_command(["gguf"]),
        )


def convert(target: Path, dtype: str, converter: str) -> str:
    """Converts an exported folder to a GGUF file in it, and returns the file's name. Raises Mistake.

    converter: a Python file, or a program if installed on PATH.
    """
    file = f"model-{TYPES[dtype]}.gguf"
    is_program = os.path.basename(converter) == converter
    words = [] if is_program else [sys.executable]
    words += [converter, str(target), "--outfile", str(target / file), "--outtype", TYPES[dtype]]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            # Its own modules are next to it.
            env={name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"},
            preexec_fn=die_with_parent,
        )
    except OSError as problem:
        raise _not_converted(f"{converter} cannot be started: {problem.strerror}") from problem
    if done.returncode != 0 or not (target / file).is_file():
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        last = lines[-1][:_LONGEST_LINE] if lines else "it said nothing"
        missing = _MISSING.search(last)
        fix = f"{install_command([missing[1]])}, which the converter needs, or leave out --gguf" if missing else None
        raise _not_converted(f"{os.path.basename(converter)} ended with {done.returncode}: {last}", fix)
    return file


def check_vocabulary(file: Path, ends: Ends) -> int | None:
    """Compares a GGUF file's tokens with the tokenizer, and returns its end-of-text token. Raises Refused."""
    from gguf import GGUFReader

    fields = GGUFReader(file).fields
    written: Sequence[str] = fields[_TOKENS].contents() if _TOKENS in fields else []
    own = ends.tokenizer.convert_ids_to_tokens(list(range(len(ends.tokenizer))))
    added = ends.tokenizer.get_added_vocab().values()
    for number, token in enumerate(own):
        as_added = (token.replace("\u2581", " "), ends.tokenizer.decode([number])) if number in added else ()
        if number >= len(written) or written[number] not in (token, *as_added):
            there = repr(written[number]) if number < len(written) else "none"
            raise _another_model(f"its token {number} is {there}, that of the trained model {token!r}")
    return int(fields[_END].contents()) if _END in fields else None


def refuse_another(proof: ExportProof) -> None:
    """Raises Refused if a GGUF file is not the trained model."""
    if not proof.holds:
        raise _another_model(
            f"on {proof.tokens} tokens of {proof.completions} its log-probabilities differ by up to "
            f"{proof.difference:.3g} from those of the trained model, and up to {proof.allowed:.3g} is rounding"
        )


def unreadable(problem: BaseException) -> Refused:
    """Returns the refusal of a GGUF file that transformers cannot read."""
    first = (str(problem).splitlines() or [""])[0][:_LONGEST_LINE]
    return Refused.of(
        "the GGUF file cannot be verified, nothing was written",
        because=f"transformers cannot read it: {type(problem).__name__}: {first}",
        fix=f"leave out --gguf, and convert the folder with {CONVERTER}, without a proof",
    )


def words_of_ends(file: str, end: int | None, ends: Ends) -> str:
    """Returns the note about a GGUF file: what it is, and which of the recipe's ends it lacks."""
    others = [repr(ends.tokenizer.decode([token])) for token in ends.tokens if token != end]
    text = f"{file} is the same model for llama.cpp, read and proved with transformers"
    if not others:
        return f"{text}."
    return f"{text}; the recipe's completions also end at {', '.join(others)}, which the file does not contain."


def _not_converted(because: str, fix: str | None = None) -> Mistake:
    return Mistake.of(
        "llama.cpp's converter wrote no GGUF file, nothing was written",
        because=because,
        fix=fix or "leave out --gguf: transformers and vLLM load the folder as it is",
    )


def _another_model(because: str) -> Refused:
    return Refused.of(
        "the GGUF file is not the trained model, nothing was written",
        because=because,
        fix="a different --dtype, or leave out --gguf, and report this to llama.cpp",
    )
