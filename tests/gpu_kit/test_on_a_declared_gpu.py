"""The stages as on two GPUs, without one: what they make of each recipe is planned, and nothing is trained.

So a setting that a GPU's plan refuses, and a name in a branch that the CPU never takes, are found here. What a training
would have measured is made up; that the figures are real ones is what a GPU is for.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_kit import bench as benches
from gpu_kit.bench import Bench
from gpu_kit.scale import SHAPES, Scale
from gpu_kit.stages import attention, images, out_of_memory, quantized, real_model, sharded, with_vllm
from gpu_kit.stages.catalog import STAGES
from gpu_kit.trained import Trained
from grpo_recipes.contract.plan import Plan
from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.stack.target import parse_target

pytestmark = pytest.mark.stack

TARGET = "tested,vllm==0.30.0,gpus={}xH200-141GB"
# Their own process says what they find, in the same words on a CPU, where they are run.
LEFT_OUT = {"doctor", "padding", "own_cost", "resume", "sigterm", "lost"}
KERNELS = {"torch's choice": {"not finite": ["64 tokens"]}, "the shim finds it finite": False}
MEASURED: dict[str, dict[str, Any]] = {
    "attention_kernels.py": KERNELS,
    "differences.py": {"tensor": "model.norm", "relative": 1e-7},
    "merge_drift.py": {"drift": 1e-8, "effect": 1e-3, "cycles": 50},
    "plain_trl.py": {
        "losses": [0.1],
        "gradient_norms": [1.0],
        "step_s": 1.0,
        "median_step_s": 1.0,
        "generation_s": 0.5,
        "update_s": 0.5,
    },
}


class Planned(Bench):
    """A bench that plans in place of training."""

    def model(self, size: str) -> Path:
        """config.json and the tokenizer of a model, without weights."""
        from gpu_kit.scripts import make_model

        place = self.work / "models" / size
        if not place.exists():
            place.mkdir(parents=True)
            (place / "config.json").write_text(json.dumps(make_model.config(SHAPES[size]._asdict())))
            for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
                (place / name).symlink_to(make_model.TOKENIZER / name)
            (place / "model.safetensors").touch()
        return place

    def measured(self, name: str, *words: str, **variables: str) -> dict[str, Any]:
        """What a script would measure."""
        older = "PYTHONPATH" in variables
        return MEASURED.get(name, {"trl": "0.23.1" if older else "1.16.0", "loss": 0.1})

    def train(
        self, file: Path, *settings: str, name: str = "", words: tuple[str, ...] = (), **variables: str
    ) -> Trained:
        """A run that ended well, of the plan that there would be."""
        stack, _ = parse_target(TARGET.format(STAGES[self.stage].gpus))
        assert stack is not None
        resolution = resolve(str(file), stack, settings)
        errors = [f"{one.rule}: {one.message}" for one in resolution.findings if one.severity == "error"]
        assert errors == [], errors
        plan = plan_of(resolution)
        assert plan.world.device == "cuda"
        folder = self.run_folder(name or file.stem)
        folder.mkdir(parents=True)
        (self.folder / "triton").mkdir(exist_ok=True)
        (self.folder / "triton" / "_forward_kernel.cubin").touch()
        (folder / "plan.json").write_text(
            json.dumps({"memory": {"phases": (plan.memory and plan.memory.phases) or {}}})
        )
        return trained(folder, plan, settings)


def trained(folder: Path, plan: Plan, settings: tuple[str, ...]) -> Trained:
    """What such a training would have left."""
    ids = ("PRF006", "PRF008", "PRF010", "PRF011", "PRF037")
    phases = {} if plan.memory is None else plan.memory.phases
    memory = {
        phase: {
            "measured": sum(terms.values()) - terms.get("context", 0),
            "reserved": None,
            "estimated": sum(terms.values()),
        }
        for phase, terms in phases.items()
    }
    record = {
        "status": "completed",
        "proofs": [{"id": one, "ok": True, "shown": one} for one in ids],
        "memory": memory,
        "evaluation": {when: {"pass_at": {"1": share}} for when, share in (("before", 0.1), ("after", 0.9))},
        "shims": {attention.SHIM: "cuDNN's attention is off"},
    }
    steps = [
        {
            "loss": 0.1,
            "grad_norm": 1.0,
            "time": float(number),
            "completions/mean_length": 10.0 if any("generation.stop" in one for one in settings) else 20.0,
            with_vllm.APART: 0.01,
            "seconds/generate": 0.5,
            "seconds/score": 0.1,
        }
        for number in range(max(2, int(plan.arguments.GRPOConfig.get("max_steps", 2))))
    ]
    return Trained(folder, 0, 1.0, "", record, steps, 0.5)


@pytest.fixture
def bench_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Planned]:
    """A bench for a stage, on a machine that has every package and two GPUs."""
    for stage in (attention, images, quantized, real_model, sharded, with_vllm):
        monkeypatch.setattr(stage, "installed", lambda name: True)
    monkeypatch.setattr(sharded, "live_device", lambda: {"sees_gpus": 2})
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "hold_memory.py").write_text("import sys; print('134.3 GiB', flush=True); sys.stdin.read()")
    monkeypatch.setattr(out_of_memory, "SCRIPTS", tmp_path / "scripts")
    (older := tmp_path / "older").mkdir()
    (older / "trl").mkdir()

    def made(stage: str) -> Planned:
        found = Planned(stage, Scale("cuda"), tmp_path / "work", older)
        rows = benches.write_rows(tmp_path / "work" / "rows", 40)
        (place := tmp_path / "work" / "real").mkdir(parents=True)
        content = benches.recipe("real", found.model("0.5B"), rows, tokens=32, prompts=4)
        (place / "smollm2.yaml").write_text(yaml.safe_dump(content))
        return found

    return made


@pytest.mark.processes
@pytest.mark.parametrize("name", [name for name in STAGES if name not in LEFT_OUT])
def test_a_stage_is_planned_for_a_gpu(name: str, bench_of: Callable[[str], Planned]) -> None:
    bench = bench_of(name)
    STAGES[name].run(bench)
    if name == "out_of_memory":
        assert bench.result.wrong == ["ended with 0: ", "not reported: "]
    else:
        assert (bench.result.status, bench.result.wrong) == ("passed", [])
    assert bench.result.figures
