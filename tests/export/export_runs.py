"""Small runs of the quickstart, each kind trained once, and what is asked of the models that they leave."""

import functools
import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

from grpo_recipes.cli.main import main

RECIPES = Path(__file__).parents[2] / "recipes"
RECIPE = RECIPES / "quickstart.yaml"
ADDED = ["<search>", "</search>"]
# Large steps, so that a few of them change more than bfloat16 rounds away.
SMALL = {"training.max_steps": 4, "training.learning_rate": 1e-2, "training.save_steps": 0, "evaluation.max_rows": 12}
KINDS: dict[str, dict[str, object]] = {
    # Records no completions.
    "full": {"lora": None, "training.learning_rate": 1e-3, "evaluation": None},
    "lora": {},
    "nf4": {"quantization": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}},
    # With new tokens. Embedding and output layer are one matrix in the base, and stay one.
    "tied": {
        "tokenizer.add_tokens": ADDED,
        "lora.modules_to_save": ["embed_tokens"],
        "lora.ensure_weight_tying": True,
        "generation.stop": ["</search>"],
    },
}
LIMIT_S = 600


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command ended, what it printed, and the answer that it gave as JSON."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """The answer of a command with --json."""
        found: dict[str, Any] = json.loads(self.out)
        return found


Command = Callable[..., Answer]


def command(bin_folder: Path, *words: object, typed: str | None = None, **more: str) -> Answer:
    """A command of grpo-run as a user types it, with the Python of a folder. typed: what a pipe gives it.

    It is a fork of this process, which has imported the commands; what it starts are programs as always.
    """
    _import_commands()
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **more}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write((typed or "").encode())
        given.seek(0)
        child = os.fork()
        if child == 0:
            _run_and_exit(bin_folder / "python", [*map(str, words)], (given, out, err), environment)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        return Answer(code, out.read().decode(), err.read().decode())


@functools.cache
def _import_commands() -> None:
    for name in ("cli.commands.chat", "cli.commands.export", "cli.commands.generate", "cli.commands.run"):
        importlib.import_module(f"grpo_recipes.{name}")
    importlib.import_module("grpo_recipes.launch.worker_part")


def _run_and_exit(python: Path, words: list[str], files: Sequence[IO[bytes]], environment: dict[str, str]) -> NoReturn:
    """Nothing of the test runs on in the fork."""
    code = 1
    signal.alarm(LIMIT_S)
    try:
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww")
        )
        os.environ.clear()
        os.environ.update(environment)
        sys.executable = str(python)
        main(words)
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def trained(bin_folder: Path, kind: str, folder: Path) -> Path:
    """A run folder whose model was trained for a few steps."""
    values = {**SMALL, **KINDS[kind]}
    if values.get("evaluation", 0) is None:
        values.pop("evaluation.max_rows")
    options = [word for key, value in values.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    done = command(bin_folder, RECIPE, "--out", folder, *options)
    assert done.code == 0, done.out + done.err
    return folder


def own_log_probs(model: Any, texts: list[tuple[list[int], list[int]]]) -> list[float]:
    """The log-probability of each token of each completion behind its prompt, computed apart from what is tested."""
    import torch

    found: list[float] = []
    for prompt, completion in texts:
        with torch.no_grad():
            every = model(torch.tensor([prompt + completion])).logits[0].double().log_softmax(-1)
        found += [every[place - 1, token].item() for place, token in enumerate(completion, len(prompt))]
    return found


def largest(some: list[float], others: list[float]) -> float:
    """The largest difference."""
    return max(abs(one - other) for one, other in zip(some, others, strict=True))
