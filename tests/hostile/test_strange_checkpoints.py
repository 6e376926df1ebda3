"""No pickle of a checkpoint is read that no run of this user wrote and nobody allowed, whatever its manifest says."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_recipes.contract.integrity.checkpoints import judge_checkpoints, pickles, unsafe_names
from grpo_recipes.contract.integrity.manifest import MANIFEST
from grpo_recipes.contract.integrity.run_folder import write_integrity
from grpo_recipes.contract.integrity.seal import seal_content
from grpo_recipes.worker._shared.planned import read_plan
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.checkpoints.checkpoint import own_digests
from grpo_recipes.worker.resume.resuming import checkpoint_to_resume

pytestmark = pytest.mark.hostile

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "recipes" / "quickstart.yaml"
LIMIT_S = 600
SMALL = {
    "training.prompts_per_step": 4,
    "training.per_device_train_batch_size": 8,
    "training.max_steps": 6,
    "training.save_steps": 2,
    "grpo.num_generations": 4,
    "evaluation": None,
}
KINDS: dict[str, dict[str, object]] = {
    "full": {"lora": None},
    "lora": {},
    "zero2": {
        "lora": None,
        "distributed.strategy": "zero2",
        "launch.num_processes": 2,
        "training.per_device_train_batch_size": 4,
    },
}
Runs = Callable[[str], Path]


def environment(place: Path) -> dict[str, str]:
    """That of the user who resumes."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    quiet = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TORCH_EXTENSIONS_DIR": str(place / "extensions")}
    return {**kept, **quiet, "XDG_CONFIG_HOME": str(place / "config"), "PYTHONPATH": str(ROOT)}


def begun(place: Path, *words: str) -> "subprocess.Popen[str]":
    """A program in the user's environment; stdout and stderr are one stream."""
    return subprocess.Popen(
        words, cwd=place, env=environment(place), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def grpo_run(place: Path, *words: str, python: str = sys.executable) -> tuple[int, str]:
    """The command to its end: exit code and output."""
    process = begun(place, python, "-m", "grpo_recipes.cli.main", *words)
    output, _ = process.communicate(timeout=LIMIT_S)
    return process.returncode, output


@pytest.fixture(scope="session")
def trained_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the user's list of allowed code is, and the runs that are copied."""
    return tmp_path_factory.mktemp("trained")


@pytest.fixture(scope="session")
def runs(trained_place: Path, warm_python: Path) -> Runs:
    """Real runs by kind, each interrupted by a signal after a checkpoint; trained once."""

    def made(kind: str) -> Path:
        folder = trained_place / kind
        if not folder.exists():
            values = {**SMALL, **KINDS[kind]}
            options = [word for key, value in values.items() for word in ("--set", f"{key}={json.dumps(value)}")]
            python = str(warm_python / "python")
            command = (python, "-m", "grpo_recipes.cli.main", str(RECIPE), "--out", str(folder), *options)
            process = begun(trained_place, *command)
            give_up = time.monotonic() + LIMIT_S
            while not any((folder / "checkpoints").glob("checkpoint-*")) and time.monotonic() < give_up:
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 75, output
        return folder

    return made


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


class Canary:
    """Makes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.system, (f"touch {self.file}",)


def canary(place: Path) -> bytes:
    """A file as torch.save writes it, with the canary in it."""
    import torch

    buffer = io.BytesIO()
    torch.save({"state": Canary(place / "canary"), "tensor": torch.zeros(1)}, buffer)
    return buffer.getvalue()


def copied(run_folder: Path, place: Path) -> tuple[Path, Path]:
    """A copy of a run folder, and its newest checkpoint, for the same user, whose list has what the run wrote."""
    if (run_folder.parent / "config").exists():
        shutil.copytree(run_folder.parent / "config", place / "config")
    shutil.copytree(run_folder, place / "run", symlinks=True)
    newest = next(judge_checkpoints(place / "run" / "checkpoints")).folder
    return place / "run", newest


def told_anew(checkpoint: Path, **changes: object) -> None:
    """Gives a checkpoint a manifest for the files that it has now, as anybody can."""
    content = json.loads((checkpoint / MANIFEST).read_text())
    (checkpoint / MANIFEST).unlink()
    digests = {**own_digests(checkpoint, 0, 1)}
    files = {name: {"bytes": found.size, "sha256": found.sha256} for name, found in digests.items()}
    (checkpoint / MANIFEST).write_text(seal_content("checkpoint", {**content, "files": files, **changes}))


def older(checkpoint: Path) -> None:
    """A manifest of format 1 in a run folder without an id, which anybody can write."""
    write_integrity(checkpoint.parents[1], None)
    made_older(checkpoint)


def made_older(checkpoint: Path) -> None:
    told_anew(checkpoint)
    content = json.loads((checkpoint / MANIFEST).read_text())
    del content["seal"]
    sizes = {name: found["bytes"] for name, found in content["files"].items()}
    (checkpoint / MANIFEST).write_text(json.dumps({**content, "checkpoint": 1, "files": sizes}))


# How an attacker writes the manifest anew.
FORMS: dict[str, Callable[[Path], None]] = {"sealed anew": told_anew, "of an older grpo-run": older}
# Named by the manifest, or not seen at all: nothing is gone on with.
REFUSED_FORMS: dict[str, Callable[[Path], None]] = {
    "not touched": lambda checkpoint: None,
    "of a model": lambda checkpoint: (checkpoint / MANIFEST).write_text(
        seal_content("model", json.loads((checkpoint / MANIFEST).read_text()))
    ),
    "of an older grpo-run, with your seal": lambda checkpoint: (checkpoint / MANIFEST).write_text(
        (checkpoint / MANIFEST).read_text().replace('"checkpoint": 2', '"checkpoint": 1')
    ),
    "of an older grpo-run, in a run that is none of its": made_older,
    "without a seal": lambda checkpoint: (checkpoint / MANIFEST).write_text(
        json.dumps(
            {key: value for key, value in json.loads((checkpoint / MANIFEST).read_text()).items() if key != "seal"}
        )
    ),
}


def test_the_canary_sings(tmp_path: Path) -> None:
    """The harm is seen where a pickle is read without bounds."""
    import torch

    torch.load(io.BytesIO(canary(tmp_path)), weights_only=False)
    assert (tmp_path / "canary").exists()


@pytest.mark.stack
@pytest.mark.parametrize("kind", KINDS)
def test_what_you_wrote_is_gone_on_with(kind: str, runs: Runs, place: Path) -> None:
    folder, checkpoint = copied(runs(kind), place)
    assert checkpoint_to_resume(folder, read_plan(folder))[1] == [f"resumed from {checkpoint.name}"]


@pytest.mark.stack
@pytest.mark.parametrize("form", REFUSED_FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_file_that_was_replaced_is_noticed(kind: str, form: str, runs: Runs, place: Path) -> None:
    folder, checkpoint = copied(runs(kind), place)
    told = (checkpoint / MANIFEST).read_bytes()
    names = sorted(json.loads(told)["files"])
    assert len(names) > 8
    for name in names:
        before = (checkpoint / name).read_bytes()
        (checkpoint / name).write_bytes(canary(place))
        REFUSED_FORMS[form](checkpoint)
        newest = next(judge_checkpoints(folder / "checkpoints", contents=True))
        assert newest.folder == checkpoint
        assert newest.reason is not None, name
        (checkpoint / name).write_bytes(before)
        (checkpoint / MANIFEST).write_bytes(told)
    assert not (place / "canary").exists()


@pytest.mark.stack
@pytest.mark.parametrize("form", FORMS)
def test_pickles_of_a_stranger_are_named_and_not_read(form: str, runs: Runs, place: Path) -> None:
    folder, checkpoint = copied(runs("zero2"), place)
    names = unsafe_names(json.loads((checkpoint / MANIFEST).read_text())["files"])
    assert len(names) == 3
    for name in names:
        before = (checkpoint / name).read_bytes()
        (checkpoint / name).write_bytes(canary(place))
        FORMS[form](checkpoint)
        with pytest.raises(Refused, match="was not written by you, and reading it may run code") as refused:
            checkpoint_to_resume(folder, read_plan(folder))
        assert all(one in str(refused.value) for one in names)
        assert re.search(r"--allow-code [0-9a-f]{64}$", str(refused.value))
        (checkpoint / name).write_bytes(before)
    assert not (place / "canary").exists()


UNKNOWN = (
    "x.pkl",
    ".metadata",
    "random_states_0.pkl",
    "pytorch_model_fsdp_0/.metadata",
    "optimizer_0/__0_0.distcp",
    "custom_checkpoint_0.pkl",
    "global_step9/x.pt",
    "model.pt",
    "optimizer.pt.bin",
    "sub/optimizer.pt",
    "optimizer.pt\n",
    "latest\n.bin",
)


@pytest.mark.stack
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", UNKNOWN, ids=repr)
def test_what_is_not_known_to_be_harmless_is_a_pickle(form: str, name: str, runs: Runs, place: Path) -> None:
    folder, checkpoint = copied(runs("full"), place)
    (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
    (checkpoint / name).write_bytes(canary(place))
    FORMS[form](checkpoint)
    with pytest.raises(Refused, match="reading it may run code"):
        checkpoint_to_resume(folder, read_plan(folder))


@pytest.mark.stack
@pytest.mark.parametrize(
    "text", ["../../evil", "/tmp/evil", "..", ".", "", "global_step4/../../evil", "elsewhere", "a\0b"]
)
@pytest.mark.parametrize("form", FORMS)
def test_the_states_of_deepspeed_are_those_of_the_checkpoint(form: str, text: str, runs: Runs, place: Path) -> None:
    folder, checkpoint = copied(runs("zero2"), place)
    for name in unsafe_names(json.loads((checkpoint / MANIFEST).read_text())["files"]):
        (checkpoint / name).unlink()  # nothing in it is a pickle now
    (checkpoint / "latest").write_text(text)
    FORMS[form](checkpoint)
    newest = next(judge_checkpoints(folder / "checkpoints", contents=True))
    assert newest.reason == "latest names no folder of it"


@pytest.mark.stack
@pytest.mark.parametrize("harm", ["gone", "cut off", "another one"])
def test_without_your_list_nothing_is_yours(harm: str, runs: Runs, place: Path) -> None:
    folder, _ = copied(runs("zero2"), place)
    shutil.rmtree(place / "config", ignore_errors=True)
    if harm != "gone":
        (place / "config" / "grpo-run").mkdir(parents=True)
        text = json.dumps({"allowed": ["0" * 64]})
        (place / "config" / "grpo-run" / "allowed.json").write_text(text if harm == "another one" else text[:20])
    with pytest.raises(Refused, match="was not written by you"):
        checkpoint_to_resume(folder, read_plan(folder))


@pytest.mark.stack
def test_where_torch_reads_pickles_as_they_are_all_of_them_are_asked_for(
    runs: Runs, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, checkpoint = copied(runs("full"), place)
    told_anew(checkpoint)
    assert checkpoint_to_resume(folder, read_plan(folder))[0] == checkpoint
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(Refused, match=r"optimizer\.pt, rng_state\.pth, scheduler\.pt are pickles"):
        checkpoint_to_resume(folder, read_plan(folder))


@pytest.mark.stack
@pytest.mark.parametrize(
    ("kind", "name", "instead_of"),
    [
        ("full", "optimizer.pt", None),
        ("full", "scheduler.pt", None),
        ("full", "rng_state.pth", None),
        ("full", "training_args.bin", None),
        ("full", "pytorch_model.bin", "model.safetensors"),
        ("lora", "adapter_model.bin", "adapter_model.safetensors"),
    ],
)
def test_what_is_read_of_a_strangers_checkpoint_runs_nothing(
    kind: str, name: str, instead_of: str | None, runs: Runs, place: Path, warm_python: Path
) -> None:
    folder, checkpoint = copied(runs(kind), place)
    (checkpoint / (instead_of or name)).unlink()
    (checkpoint / name).write_bytes(canary(place))
    told_anew(checkpoint)
    code, output = grpo_run(place, str(folder), "--resume", python=str(warm_python / "python"))
    assert f"resumed from {checkpoint.name}" in (folder / "train.log").read_text(), output
    assert code == (0 if name == "training_args.bin" else 1), output
    assert not (place / "canary").exists()


@pytest.mark.stack
def test_a_strangers_states_of_deepspeed_are_read_when_they_were_allowed(
    runs: Runs, place: Path, warm_python: Path
) -> None:
    python = str(warm_python / "python")
    folder, checkpoint = copied(runs("zero2"), place)
    states = next(checkpoint.glob("global_step*/mp_rank_00_model_states.pt"))
    states.write_bytes(canary(place))
    told_anew(checkpoint)

    code, output = grpo_run(place, str(folder), "--resume")
    assert code == 2, output
    assert f"pickles of a checkpoint {folder}/checkpoints/{checkpoint.name} (" in output
    by_hand = begun(place, "env", f"PYTHON={python}", "bash", str(folder / "launch.sh"), "--resume")
    said, _ = by_hand.communicate(timeout=LIMIT_S)
    assert by_hand.returncode != 0
    assert f"{checkpoint.name} was not written by you, and reading it may run code" in said
    assert not (place / "canary").exists()

    judged = next(judge_checkpoints(folder / "checkpoints"))
    assert judged.manifest is not None
    found = pickles(judged.folder, judged.manifest)
    assert found is not None and found[1] in output and found[1] in said
    grpo_run(place, str(folder), "--resume", "--allow-code", found[1], python=python)
    assert (place / "canary").exists()  # the harm is seen where the defence is taken away


@pytest.mark.stack
@pytest.mark.parametrize("ways", ["--resume", "again", "by hand"])
def test_a_plan_that_was_changed_is_not_carried_out(ways: str, runs: Runs, place: Path) -> None:
    folder, _ = copied(runs("lora"), place)
    plan = (folder / "plan.json").read_bytes()
    assert plan.count(b'"learning_rate"') > 0
    for change in (
        plan.replace(b'"temperature": 1.0', b'"temperature": 1.1', 1),
        plan + b" ",
        plan.replace(b"  ", b" ", 1),
    ):
        assert change != plan
        (folder / "plan.json").write_bytes(change)
        if ways == "by hand":
            process = begun(place, "env", f"PYTHON={sys.executable}", "bash", str(folder / "launch.sh"), "--resume")
            output, _ = process.communicate(timeout=LIMIT_S)
            code = process.returncode
        else:
            code, output = grpo_run(place, str(folder), *(["--resume"] if ways == "--resume" else ["--out", "new"]))
        assert code == (3 if ways == "by hand" else 2), output
        assert "plan.json: the plan was changed after it was written" in output
    assert "Traceback" not in output
