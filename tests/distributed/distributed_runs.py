"""Whole runs of one small recipe under each strategy, and how they compare."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The interpreter of all runs; conftest.py puts one here that begins with the libraries imported.
PYTHON = [sys.executable]
RECIPE = Path(__file__).parents[2] / "recipes" / "quickstart.yaml"
LIMIT_S = 300
STEPS = 3
STRATEGIES = ("single", "ddp", "zero1", "zero2", "zero3")
# Three steps of 64 completions in two accumulation steps. AdamW's epsilon is large, so that a difference of 1e-9 in a
# gradient near zero does not become a whole step of the learning rate.
SMALL = {
    "training.max_steps": STEPS,
    "training.prompts_per_step": 8,
    "training.per_device_train_batch_size": 16,
    "training.adam_epsilon": 1e-4,
    "training.save_steps": 2,
    "evaluation.max_rows": 16,
    "evaluation.every_steps": 2,
}
KINDS: dict[str, dict[str, object]] = {
    "full": {"lora": None, "training.learning_rate": 3e-4},
    "LoRA": {},
    "nf4 LoRA": {"quantization": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}},
}
AUTOCAST: dict[str, dict[str, object]] = {
    f"{kind}, bf16": {**KINDS[kind], "training.bf16": True} for kind in ("full", "LoRA")
}
# As bnb_4bit_quant_storage says, FSDP2 cuts 4-bit weights or leaves them whole.
CUT_IN_FOUR_BITS = "nf4 LoRA, in float32"
KINDS_OF_FSDP2: dict[str, dict[str, object]] = {
    **KINDS,
    **AUTOCAST,
    CUT_IN_FOUR_BITS: {
        "quantization": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_quant_storage": "float32"}
    },
}
# DeepSpeed keeps parameters below this size whole; every one of a model this small would be.
NOTHING_KEPT = {"distributed.deepspeed": {"zero_optimization": {"stage3_param_persistence_threshold": 0}}}


@dataclass(frozen=True, slots=True)
class Run:
    """One run that has ended. cpu_s: of all its processes together."""

    strategy: str
    kind: str
    folder: Path
    exit_code: int
    cpu_s: float
    output: str

    def steps(self, name: str) -> list[float]:
        """A figure of each step, from metrics.jsonl."""
        lines = (json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines())
        return [float(line[name]) for line in lines if line["event"] == "step"]

    def evaluations(self) -> dict[str, str]:
        """The held-out rows with their answers and rewards, by file, as text."""
        return {path.name: path.read_text() for path in sorted((self.folder / "evaluation").iterdir())}


RunOf = Callable[[str, str], Run]


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest differences of a run to another over all steps; numbers are absolute, norms relative."""

    reward: float
    loss: float
    grad_norm: float
    evaluation: int
    weights: float


def options(strategy: str, kind: str, **more: object) -> list[str]:
    """The --set options of a run; in `more` a key has __ for its dot."""
    values = {**SMALL, **KINDS_OF_FSDP2[kind], "distributed.strategy": strategy}
    values["launch.num_processes"] = 1 if strategy == "single" else 2
    values |= NOTHING_KEPT if strategy == "zero3" else {}
    values |= {key.replace("__", "."): value for key, value in more.items()}
    accepted = ["--accept", "WLD003"] if strategy == "fsdp2" else []
    return accepted + [word for key, value in values.items() for word in ("--set", f"{key}={json.dumps(value)}")]


def environment(folder: Path, strategy: str = "") -> dict[str, str]:
    """That of this process, without the network and with extensions in a folder of their own.

    For fsdp2 accelerate is changed: see fsdp_on_cpu.
    """
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    changed = {"PYTHONPATH": str(Path(__file__).with_name("fsdp_on_cpu"))} if strategy == "fsdp2" else {}
    own = {"TORCH_EXTENSIONS_DIR": str(folder / "extensions"), "PYTHON": PYTHON[-1]}
    return {**os.environ, **offline, **own, **changed}


def _timed(command: list[str], folder: Path, strategy: str) -> tuple[int, float, str]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(folder, strategy),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.returncode, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def grpo_run(strategy: str, kind: str, folder: Path, inside: Sequence[str] = (), **more: object) -> Run:
    """`grpo-run RECIPE` to its end. inside: a command that runs it."""
    command = [*inside, PYTHON[-1], "-m", "grpo_recipes.cli.main", str(RECIPE), "--out", str(folder / "run")]
    ended = _timed([*command, *options(strategy, kind, **more)], folder, strategy)
    return Run(strategy, kind, folder / "run", *ended)


def recipe_run(recipe: Path, strategy: str, folder: Path, *words: str) -> Run:
    """`grpo-run` of another recipe to its end, in a folder beside it, with more words."""
    command = [PYTHON[-1], "-m", "grpo_recipes.cli.main", str(recipe), "--out", str(folder)]
    processes = 1 if strategy == "single" else 2
    command += ["--set", f"distributed.strategy={strategy}", "--set", f"launch.num_processes={processes}", *words]
    command += ["--accept", "WLD003"] if strategy == "fsdp2" else []
    return Run(strategy, recipe.stem, folder, *_timed(command, recipe.parent, strategy))


def looked_at(strategy: str, kind: str, folder: Path, **more: object) -> Run:
    """The same through `--dry-run` and launch.sh, with looking_train.py as its worker/train.py."""
    command = [PYTHON[-1], "-m", "grpo_recipes.cli.main", str(RECIPE), "--out", str(folder / "run"), "--dry-run"]
    exit_code, cpu_s, output = _timed([*command, *options(strategy, kind, **more)], folder, strategy)
    assert exit_code == 0, output
    looking = Path(__file__).with_name("looking_train.py").read_text()
    (folder / "run" / "worker" / "train.py").write_text(looking)
    exit_code, more_s, output = _timed(["bash", str(folder / "run" / "launch.sh")], folder, strategy)
    return Run(strategy, kind, folder / "run", exit_code, cpu_s + more_s, output)


def loaded_weights(run: Run) -> dict[str, Any]:
    """The trained tensors of `final`, as transformers and PEFT load them, in float32."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    final = run.folder / "final"
    if not (final / "adapter_config.json").exists():
        model = AutoModelForCausalLM.from_pretrained(final, dtype="float32")
        return {name: tensor.detach() for name, tensor in model.named_parameters()}
    base = json.loads((run.folder / "plan.json").read_text())["model"]["path"]
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype="float32"), final)
    return {name: tensor.detach().float() for name, tensor in model.named_parameters() if "lora_" in name}


def saved_dtypes(run: Run) -> set[str]:
    """The dtypes of the tensors in `final`, as they are written."""
    from safetensors.torch import load_file

    files = (run.folder / "final").glob("*.safetensors")
    return {str(tensor.dtype).removeprefix("torch.") for file in files for tensor in load_file(file).values()}


def difference(run: Run, reference: Run) -> Difference:
    """How far a run is from another one of the same recipe."""
    largest = {
        name: max(abs(a - b) for a, b in zip(run.steps(name), reference.steps(name), strict=True))
        for name in ("reward", "loss")
    }
    norms = zip(run.steps("grad_norm"), reference.steps("grad_norm"), strict=True)
    mine, others = run.evaluations(), reference.evaluations()
    weights, theirs = loaded_weights(run), loaded_weights(reference)
    assert weights.keys() == theirs.keys()
    return Difference(
        **largest,
        grad_norm=max(abs(a - b) / b for a, b in norms),
        evaluation=sum(mine.get(name) != text for name, text in others.items()),
        weights=max(float((weights[name] - theirs[name]).abs().max()) for name in weights),
    )
