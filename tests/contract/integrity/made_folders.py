"""Run folders as grpo-run leaves them, made of small files, with real digests and seals."""

import functools
import json
import shutil
import tempfile
from pathlib import Path

from grpo_recipes.contract.integrity.manifest import MANIFEST
from grpo_recipes.contract.integrity.run_folder import new_run_id, record_text, write_integrity
from grpo_recipes.worker.checkpoints.checkpoint import write_manifest, write_model_manifest

STATE = {
    "loss": 0.5,
    "logged_step": 4,
    "tokens": 12,
    "figures": {"reward": [0.25]},
    "guards": {},
    "spoken": [],
    "evaluation": {},
}
COMMON = {
    "model.safetensors": b"weights",
    "optimizer.pt": b"moments",
    "rng_state.pth": b"numbers",
    "config.json": b"{}",
    "trainer_state.json": b'{"global_step": 4}',
    "grpo_run_0.json": json.dumps(STATE).encode(),
}
OF_DEEPSPEED = {
    "latest": b"global_step4",
    "zero_to_fp32.py": b"pass",
    "global_step4/mp_rank_00_model_states.pt": b"weights",
    "global_step4/zero_pp_rank_0_mp_rank_00_optim_states.pt": b"moments of one",
    "global_step4/zero_pp_rank_1_mp_rank_00_optim_states.pt": b"moments of the other",
}


def checkpoint(run_folder: Path, step: int = 4, more: dict[str, bytes] | None = None) -> Path:
    """A checkpoint with its manifest."""
    folder = run_folder / "checkpoints" / f"checkpoint-{step}"
    state = {"trainer_state.json": json.dumps({"global_step": step}).encode()}
    for name, content in {**COMMON, **state, **(more or {})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    write_manifest(folder, step, 1, {}, run_folder)
    return folder


def run_folder(place: Path, *, deepspeed: bool = False) -> Path:
    """A copy of the one new_run_folder that a process makes; all have its run id."""
    shutil.copytree(Path(_made(deepspeed).name) / "run", place / "run")
    return place / "run"


@functools.cache
def _made(deepspeed: bool) -> "tempfile.TemporaryDirectory[str]":
    kept = tempfile.TemporaryDirectory()
    new_run_folder(Path(kept.name), deepspeed=deepspeed)
    return kept


def new_run_folder(place: Path, *, deepspeed: bool = False) -> Path:
    """What was planned, two checkpoints, a trained and an extended model, run.json, and what has no digest."""
    folder = place / "run"
    for name in ("recipe.yaml", "plan.json", "accelerate.yaml", "deepspeed.json", "launch.sh"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{{{json.dumps(name)}: 1}}\n")
    for name in ("train.py", "grpo_recipes.zip", "user/rewards.py"):
        (folder / "worker" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "worker" / name).write_text(f"# {name}\n")
    write_integrity(folder, new_run_id())
    for step in (2, 4):
        more = {name.replace("4/", f"{step}/"): content for name, content in OF_DEEPSPEED.items()}
        checkpoint(folder, step, {**more, "latest": f"global_step{step}".encode()} if deepspeed else None)
    for model in ("final", "extended_model"):
        (folder / model).mkdir()
        (folder / model / "model.safetensors").write_bytes(b"trained")
        (folder / model / "config.json").write_text("{}")
        write_model_manifest(folder / model, folder)
    (folder / "run.json").write_text(record_text(folder, {"run": 1, "status": "interrupted", "words": "größer"}))
    (folder / "metrics.jsonl").write_text("{}\n")
    (folder / "train.log").write_text("a line\n")
    return folder


def as_an_older_one_wrote_it(folder: Path) -> None:
    """Turns a run folder into one without digests: manifests of format 1, which know sizes, and nothing else."""
    for checkpoint_folder in (folder / "checkpoints").iterdir():
        older_manifest(checkpoint_folder)
    for model in ("final", "extended_model"):
        (folder / model / MANIFEST).unlink(missing_ok=True)
    (folder / "integrity.json").unlink()
    (folder / "worker" / "grpo_recipes.zip").unlink()
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    del record["seal"]
    (folder / "run.json").write_text(json.dumps(record))


def older_manifest(folder: Path) -> None:
    """Gives a checkpoint a manifest of format 1 for the files that it has now."""
    content = json.loads((folder / MANIFEST).read_text())
    names = [file for file in folder.rglob("*") if file.is_file() and file.name != MANIFEST]
    sizes = {file.relative_to(folder).as_posix(): file.stat().st_size for file in names}
    del content["seal"]
    (folder / MANIFEST).write_text(json.dumps({**content, "checkpoint": 1, "files": sizes}))
