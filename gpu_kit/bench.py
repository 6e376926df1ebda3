"""Gives a stage its models and trainings, and records its figures and failed checks."""

import contextlib
import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpu_kit.result import Result
from gpu_kit.scale import SHAPES, Scale
from gpu_kit.trained import Trained, environment, train

SCRIPTS = Path(__file__).with_name("scripts")
GIB = 2**30
PROMPT = 128
TEMPLATE = 8
"""Tokens that the chat template adds to a prompt."""
DETERMINISTIC = "trl.full_determinism=true"
"""Without it, attention's backward pass adds in a different order each time."""
ROWS = 512
GROUP = 8
LORA = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "target_modules": "all-linear"}


class Broken(Exception):
    """A stage cannot continue; the text says why."""


class LeftOut(Exception):
    """A stage cannot run on this machine; the text says why."""


@dataclass
class Bench:
    """The context of a running stage. work: the folder of all stages, where models stay. older: packages of an older
    stack.

    Results are written immediately, so they survive if the stage is killed at its limit.
    """

    stage: str
    scale: Scale
    work: Path
    older: Path | None = None
    result: Result = field(default_factory=lambda: Result("passed"))

    @property
    def folder(self) -> Path:
        """The stage's folder."""
        return self.work / "stages" / self.stage

    def figure(self, name: str, value: object) -> None:
        """Records a figure."""
        self.result.figures[name] = value
        self.write()

    def holds(self, condition: bool, otherwise: str) -> None:
        """Records `otherwise` as a failed check unless the condition holds, and continues."""
        if not condition:
            self.result.wrong.append(otherwise)
            self.result.status = "failed"
            self.write()

    def write(self) -> None:
        """Writes the results so far."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "result.json").write_text(json.dumps(asdict(self.result)), encoding="utf-8")

    def model(self, size: str) -> Path:
        """Returns the folder of a model of this size, creating it if needed."""
        name = self.scale.size(size)
        place = self.work / "models" / name
        with _only_one(place):
            if not place.exists():
                shape = SHAPES[name]
                free, needed = shutil.disk_usage(place.parent).free, int(2.2 * shape.parameters)
                if free < needed:
                    raise LeftOut(f"{size} needs {needed / GIB:.0f} GiB of disk, and {free / GIB:.0f} GiB are free")
                self.script("make_model.py", str(place), self.scale.device, json.dumps(shape._asdict()))
        return place

    def script(self, name: str, *words: str, **variables: str) -> str:
        """Runs a file of scripts/ in a separate process, and returns its output. Raises Broken if it fails."""
        ran = subprocess.run(
            [sys.executable, str(SCRIPTS / name), *words], env=environment(**variables), capture_output=True, text=True
        )
        if ran.returncode:
            raise Broken(f"{name}: exit {ran.returncode}: {(ran.stdout + ran.stderr)[-2500:]}")
        return ran.stdout

    def measured(self, name: str, *words: str, **variables: str) -> dict[str, Any]:
        """Returns the JSON of the last line that a script prints."""
        found: dict[str, Any] = json.loads(self.script(name, *words, **variables).splitlines()[-1])
        return found

    def recipe(
        self, name: str, size: str, *, tokens: int = 256, prompts: int = 16, shorter: int = 0, **other: Any
    ) -> Path:
        """Writes a recipe to the stage's folder. shorter: tokens by which every second prompt is shorter."""
        rows = write_rows(self.work / "rows", self.scale.tokens(PROMPT), shorter)
        sizes = {"tokens": self.scale.tokens(tokens), "prompts": self.scale.prompts(prompts)}
        content = recipe(name, self.model(size), rows, **sizes, **other)
        self.folder.mkdir(parents=True, exist_ok=True)
        place = self.folder / f"{name}.yaml"
        place.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return place

    def run_folder(self, name: str) -> Path:
        """Returns the folder for a training of this name, after removing an old one."""
        place = self.folder / f"run-{name}"
        shutil.rmtree(place, ignore_errors=True)
        return place

    def train(
        self, file: Path, *settings: str, name: str = "", words: tuple[str, ...] = (), **variables: str
    ) -> Trained:
        """Trains a recipe; settings: KEY=VALUE of --set. name: of the training, if not the file's."""
        out = self.run_folder(name or file.stem)
        chosen = [word for setting in settings for word in ("--set", setting)]
        variables = {"TRITON_CACHE_DIR": str(self.folder / "triton"), **variables}
        return train(out, "run", str(file), "--out", str(out), *chosen, *words, **variables)

    def completed(self, run: Trained) -> Trained:
        """Records the figures of a training that should have succeeded. Raises Broken if it failed."""
        if run.code or run.record.get("status") != "completed":
            raise Broken(f"{run.folder.name}: exit {run.code}: {'; '.join(run.messages) or run.said}")
        name = run.folder.name.removeprefix("run-")
        self.figure(f"{name}: seconds", {"all": run.seconds, "until training": run.started_s})
        self.figure(f"{name}: seconds a step", run.step_seconds())
        self.figure(f"{name}: seconds of its phases", run.phase_seconds() if len(run.steps) > 1 else {})
        self.figure(f"{name}: loss, gradient norm", run.losses)
        self.figure(f"{name}: proofs", list(run.shown.values()))
        self.figure(f"{name}: memory", memory_words(run))
        for proof, ok in run.proofs.items():
            self.holds(ok is not False, f"{name}: {proof} is not proved: {run.shown[proof]}")
        return run


@contextlib.contextmanager
def _only_one(place: Path) -> Iterator[None]:
    """Makes a file or folder once; stages that run in parallel wait for it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def memory_words(run: Trained) -> dict[str, str]:
    """Formats the measured and estimated memory of each phase."""
    found = {}
    for phase, one in (run.record.get("memory") or {}).items():
        estimated = "not estimated" if one["estimated"] is None else f"estimated {one['estimated'] / GIB:.2f}"
        reserved = "" if one["reserved"] is None else f", reserved {one['reserved'] / GIB:.2f}"
        found[phase] = f"{(one['measured'] or 0) / GIB:.2f} GiB{reserved}, {estimated}"
    return found


def write_rows(folder: Path, characters: int, shorter: int = 0) -> Path:
    """Writes prompts of this many tokens, one per character, once; every second one is shorter."""
    place = folder / f"rows-{characters}-{shorter}.jsonl"
    lines = []
    for number in range(ROWS):
        text = "+".join(str((number * 37 + term * 11) % 89 + 10) for term in range(characters // 3 + 1))
        lines.append(json.dumps({"question": text[: characters - shorter * (number % 2) - 1] + "="}))
    with _only_one(place):
        if not place.exists():
            place.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place


def recipe(
    name: str, model: Path, rows: Path, *, tokens: int, prompts: int, dtype: str = "bfloat16", lora: bool = True
) -> dict[str, Any]:
    """Returns a recipe of four steps with groups of eight. Stages change single keys with --set.

    A third of the completions start with the rewarded text, so nearly every group has two rewards.
    """
    return {
        "recipe": 1,
        "name": f"gpu-{name}".replace("_", "-").lower(),
        "description": f"The stage {name} of the GPU kit.",
        "seed": 42,
        "model": {"model_name_or_path": str(model), "dtype": dtype},
        **({"lora": LORA} if lora else {}),
        "dataset": {"path": str(rows), "prompt": "{{ question }}"},
        "rewards": [{"name": "regex_match", "options": {"pattern": "^[a-m0-9]"}}],
        "generation": {"use_vllm": False, "max_completion_length": tokens, "temperature": 1.0},
        "grpo": {"num_generations": GROUP, "beta": 0.0, "loss_type": "dapo"},
        "training": {
            "prompts_per_step": prompts,
            "learning_rate": 1e-4 if lora else 1e-6,
            "max_steps": 4,
            "bf16": True,
            "gradient_checkpointing": True,
            "save_steps": 0,
        },
        "guards": {"truncation": "off"},
    }
