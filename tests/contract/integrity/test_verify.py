"""`grpo-run RUNDIR --verify` names each file that is not as it was written."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_folders import as_an_older_one_wrote_it, older_manifest, run_folder

from grpo_recipes.cli.verify import verify_folder
from grpo_recipes.contract.integrity.manifest import MANIFEST
from grpo_recipes.contract.integrity.run_folder import record_text, write_integrity
from grpo_recipes.contract.integrity.run_id import run_id
from grpo_recipes.contract.integrity.seal import seal_content
from grpo_recipes.worker.checkpoints.checkpoint import write_manifest, write_model_manifest

pytestmark = pytest.mark.slow

Damage = Callable[[Path], object]
Answer = Any
LAST = "checkpoints/checkpoint-4"


def test_what_was_written_is_whole(tmp_path: Path, grpo_run: Callable[..., Answer]) -> None:
    folder = run_folder(tmp_path, deepspeed=True)
    answer = grpo_run(str(folder), "--verify")
    assert answer.code == 0, answer.out
    assert answer.out.splitlines() == [
        "not verified: metrics.jsonl: it grows or is rewritten, so it has no digest",
        "not verified: train.log: it grows or is rewritten, so it has no digest",
        answer.out.splitlines()[-1],
    ]
    assert answer.out.splitlines()[-1].startswith(f"{folder}: unchanged (")


@pytest.mark.parametrize("name", [".DS_Store", "._model.safetensors", ".nfs000012", ".fuse_hidden0001"])
def test_what_systems_leave_behind_is_no_damage(tmp_path: Path, name: str) -> None:
    folder = run_folder(tmp_path)
    (folder / LAST / name).write_bytes(b"1")
    assert verify_folder(folder).faults == []


def flipped(name: str) -> Damage:
    def flip(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)

    return flip


def replaced_by_a_link(name: str) -> Damage:
    def replace(folder: Path) -> None:
        (folder / name).rename(folder.parent / "elsewhere")
        (folder / name).symlink_to(folder.parent / "elsewhere")

    return replace


def retold(name: str, **changes: object) -> Damage:
    """Another manifest in a checkpoint, sealed anew."""

    def retell(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(seal_content("checkpoint", {**content, **changes}))

    return retell


def piped(folder: Path) -> None:
    (folder / LAST / "optimizer.pt").unlink()
    os.mkfifo(folder / LAST / "optimizer.pt")


def swapped(folder: Path) -> None:
    first, second = (folder / "checkpoints" / f"checkpoint-{step}" / "trainer_state.json" for step in (2, 4))
    text = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(text)


ODD_FILES: dict[str, object] = {
    "files is a list": [],
    "files is a number": 1,
    "files is nothing": None,
    "a name above": {"../plan.json": {"bytes": 1, "sha256": "0" * 64}},
    "an absolute name": {"/etc/passwd": {"bytes": 1, "sha256": "0" * 64}},
    "no size": {"config.json": {"bytes": None, "sha256": "0" * 64}},
    "a size that is true": {"config.json": {"bytes": True, "sha256": "0" * 64}},
    "a size below zero": {"config.json": {"bytes": -1, "sha256": "0" * 64}},
    "a digest that is a number": {"config.json": {"bytes": 2, "sha256": 1}},
    "a zero byte in a name": {"config\0.json": {"bytes": 2, "sha256": "0" * 64}},
    "an empty name": {"": {"bytes": 2, "sha256": "0" * 64}},
}
# What is done to a run folder, and the file that has to be named.
DAMAGES: dict[str, tuple[Damage, str, str]] = {
    **{
        f"a bit of {name}": (flipped(name), name, "changed")
        for name in (
            *("plan.json", "recipe.yaml", "accelerate.yaml", "deepspeed.json", "launch.sh", "worker/train.py"),
            *("worker/user/rewards.py", "worker/grpo_recipes.zip", "run.json", "integrity.json"),
            *("final/model.safetensors", "final/config.json", "extended_model/model.safetensors"),
            *(f"{LAST}/{name}" for name in ("model.safetensors", "optimizer.pt", "rng_state.pth", "config.json")),
            *(f"{LAST}/{name}" for name in ("trainer_state.json", "grpo_run_0.json", "latest", "zero_to_fp32.py")),
            *(f"{LAST}/global_step4/zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in (0, 1)),
        )
    },
    **{
        f"a bit of the manifest of {name}": (flipped(f"{name}/{MANIFEST}"), name, "changed")
        for name in (LAST, "checkpoints/checkpoint-2", "final", "extended_model")
    },
    **{
        f"no {name}": (lambda folder, name=name: (folder / name).unlink(), name, "missing")
        for name in ("plan.json", "launch.sh", "worker/user/rewards.py", "integrity.json", f"{LAST}/rng_state.pth")
    },
    "no manifest": (lambda folder: (folder / LAST / MANIFEST).unlink(), LAST, "changed"),
    "no manifest of the model": (lambda folder: (folder / "final" / MANIFEST).unlink(), f"final/{MANIFEST}", "missing"),
    "a weight cut off": (
        lambda folder: os.truncate(folder / "final/model.safetensors", 3),
        "final/model.safetensors",
        "changed",
    ),
    **{
        f"{name} too many": (lambda folder, name=name: (folder / name).write_bytes(b"1"), name, "one too many")
        for name in (
            *(f"{LAST}/adapter_model.bin", f"{LAST}/pytorch_model.bin", f"{LAST}/global_step4/x.pt"),
            *("final/adapter_model.bin", "extended_model/modeling.py", "worker/socket.py"),
            *("worker/user/conftest.py", "worker/worker.py"),
        )
    },
    "a folder of modules too many": (
        lambda folder: ((folder / "worker/yaml").mkdir(), (folder / "worker/yaml/__init__.py").touch()),
        "worker/yaml/__init__.py",
        "one too many",
    ),
    **{
        f"a link for {name}": (replaced_by_a_link(name), name, "changed")
        for name in ("plan.json", "worker/train.py", f"{LAST}/optimizer.pt", "final/model.safetensors")
    },
    "a link for a checkpoint": (replaced_by_a_link(LAST), LAST, "one too many"),
    "a link for a folder of it": (replaced_by_a_link(f"{LAST}/global_step4"), f"{LAST}/global_step4", "one too many"),
    "a pipe for moments": (piped, f"{LAST}/optimizer.pt", "changed"),
    "states of two checkpoints swapped": (swapped, f"{LAST}/trainer_state.json", "changed"),
    "a checkpoint under another name": (
        lambda folder: (folder / LAST).rename(folder / "checkpoints/checkpoint-6"),
        "checkpoints/checkpoint-6",
        "changed",
    ),
    "a digit that is none": (
        lambda folder: (folder / "checkpoints/checkpoint-²").mkdir(),
        "checkpoints/checkpoint-²",
        "one too many",
    ),
    "a step of many digits": (
        lambda folder: (folder / f"checkpoints/checkpoint-{'9' * 200}").mkdir(),
        f"checkpoints/checkpoint-{'9' * 200}",
        "one too many",
    ),
    "no worker": (lambda folder: shutil.rmtree(folder / "worker"), "worker/train.py", "missing"),
    "a link for the worker": (replaced_by_a_link("worker"), "worker", "changed"),
    "a file for the worker": (
        lambda folder: (shutil.rmtree(folder / "worker"), (folder / "worker").touch()),
        "worker",
        "changed",
    ),
    "no checkpoint's files": (
        lambda folder: [file.unlink() for file in (folder / LAST).iterdir() if file.is_file()],
        LAST,
        "changed",
    ),
    "a file for a checkpoint": (
        lambda folder: (shutil.rmtree(folder / LAST), (folder / LAST).touch()),
        LAST,
        "changed",
    ),
    "a deep manifest": (lambda folder: (folder / LAST / MANIFEST).write_text("[" * 100_000), LAST, "changed"),
    "a pipe for a manifest": (
        lambda folder: ((folder / LAST / MANIFEST).unlink(), os.mkfifo(folder / LAST / MANIFEST)),
        LAST,
        "changed",
    ),
    **{what: (retold(f"{LAST}/{MANIFEST}", files=files), LAST, "changed") for what, files in ODD_FILES.items()},
    **{
        f"{key} is {value!r}": (retold(f"{LAST}/{MANIFEST}", **{key: value}), LAST, "changed")
        for key, value in (
            *(("step", "4"), ("step", -4), ("step", None), ("world_size", "1"), ("world_size", [])),
            *(("experiment", []), ("stack", 1), ("checkpoint", 3), ("checkpoint", None), ("checkpoint", [])),
        )
    },
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(damage: str, tmp_path: Path, grpo_run: Callable[..., Answer]) -> None:
    change, name, kind = DAMAGES[damage]
    folder = run_folder(tmp_path, deepspeed=True)
    change(folder)
    answer = grpo_run(str(folder), "--verify", "--json")
    assert answer.code == 1, answer.out
    content = json.loads(answer.out)
    assert not content["is_whole"]
    assert (name, kind) in [(fault["file"], fault["kind"]) for fault in content["faults"]]
    text = grpo_run(str(folder), "--verify")
    assert text.code == 1
    assert any(f"{line}, ".startswith(f"{name}: {kind}, ") for line in text.out.splitlines())
    assert all(line.isprintable() for line in text.out.splitlines())


def test_no_bit_of_a_file_with_a_digest_can_be_turned(tmp_path: Path) -> None:
    draw = random.Random(0)
    folder = run_folder(tmp_path, deepspeed=True)
    grows = ("metrics.jsonl", "train.log")
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name not in grows]
    unnoticed = []
    for _ in range(100):
        file = draw.choice(files)
        content = file.read_bytes()
        bit = draw.randrange(len(content) * 8)
        turned = bytearray(content)
        turned[bit // 8] ^= 1 << bit % 8
        file.write_bytes(turned)
        if not verify_folder(folder).faults:
            unnoticed.append((file.name, bit))
        file.write_bytes(content)
    assert unnoticed == []
    assert verify_folder(folder).faults == []


def test_a_folder_of_an_older_grpo_run_is_judged_by_what_there_is(
    tmp_path: Path, grpo_run: Callable[..., Answer]
) -> None:
    folder = run_folder(tmp_path)
    as_an_older_one_wrote_it(folder)
    answer = grpo_run(str(folder), "--verify")
    assert answer.code == 0, answer.out
    assert f"not verified: {LAST}: an older grpo-run wrote it: only names and sizes were compared" in answer.out
    assert "not verified: plan.json and worker/: an older grpo-run wrote no digests of them" in answer.out
    os.truncate(folder / LAST / "model.safetensors", 3)
    assert f"{LAST}/model.safetensors: changed, has 3 bytes, 7 were written" in grpo_run(str(folder), "--verify").out


def test_a_manifest_made_older_does_not_hide_that_it_is(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    (folder / LAST / "model.safetensors").write_bytes(b"another")
    older_manifest(folder / LAST)
    because = "its grpo_run.json has no content hashes, but its run writes them"
    assert [(fault.name, fault.because) for fault in verify_folder(folder).faults] == [(LAST, because)]


def test_names_of_strangers_do_not_steer_the_terminal(tmp_path: Path, grpo_run: Callable[..., Answer]) -> None:
    folder = run_folder(tmp_path)
    (folder / LAST / "x\x1b]0;title\x07\n").touch()
    answer = grpo_run(str(folder), "--verify")
    assert answer.code == 1
    assert all(line.isprintable() for line in answer.out.splitlines())


@pytest.mark.parametrize("place", ["nowhere", "empty", "recipe.yaml"])
def test_what_is_no_run_folder_is_refused(place: str, tmp_path: Path, grpo_run: Callable[..., Answer]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "recipe.yaml").touch()
    answer = grpo_run(str(tmp_path / place), "--verify")
    assert (answer.code, answer.out) == (2, "")
    assert "is not a run folder" in answer.err


def test_it_goes_with_nothing_that_starts_a_run(tmp_path: Path, grpo_run: Callable[..., Answer]) -> None:
    assert grpo_run(str(run_folder(tmp_path)), "--verify", "--resume").code == 2


def test_nothing_is_noticed_where_digests_are_written_anew(tmp_path: Path) -> None:
    """The harm is seen: what finds damage are the digests, and nothing else."""
    folder = run_folder(tmp_path)
    for name in ("plan.json", f"{LAST}/model.safetensors", "final/model.safetensors"):
        flipped(name)(folder)
    assert len(verify_folder(folder).faults) == 3
    write_integrity(folder, run_id(folder))
    write_manifest(folder / LAST, 4, 1, {}, folder)
    write_model_manifest(folder / "final", folder)
    assert verify_folder(folder).faults == []


def _without(*names: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        for name in names:
            shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()

    return remove


LOST = {
    "the newest checkpoint": ("interrupted", _without("checkpoints/checkpoint-4"), "checkpoints/checkpoint-4"),
    "all checkpoints": ("interrupted", _without("checkpoints"), "checkpoints/checkpoint-4"),
    "the trained model": ("completed", _without("final"), "final"),
    "the record": ("completed", _without("run.json"), "run.json"),
}


@pytest.mark.parametrize("what", LOST)
def test_a_part_that_is_lost_whole_is_missing(what: str, tmp_path: Path) -> None:
    status, lose, name = LOST[what]
    folder = run_folder(tmp_path)
    record = {"run": 1, "status": status, "checkpoint": str(tmp_path / "elsewhere" / "checkpoint-4"), "final": "final"}
    (folder / "run.json").write_text(record_text(folder, record))
    assert verify_folder(folder).faults == []
    lose(folder)
    assert [(fault.name, fault.kind) for fault in verify_folder(folder).faults] == [(name, "missing")]


def test_checkpoints_of_a_run_that_was_completed_may_be_removed(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    record = {"run": 1, "status": "completed", "checkpoint": "checkpoint-4", "final": "final"}
    (folder / "run.json").write_text(record_text(folder, record))
    shutil.rmtree(folder / "checkpoints")
    found = verify_folder(folder)
    assert found.faults == []
    assert "checkpoints/checkpoint-4" in found.not_verified
