"""A folder named checkpoint-<step> is whole, or it is not resumed from."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from worker_runs import Changes, planned_data

from grpo_recipes.contract.integrity.checkpoints import judge_checkpoints
from grpo_recipes.contract.integrity.manifest import MANIFEST, UNFINISHED
from grpo_recipes.contract.integrity.run_folder import write_integrity
from grpo_recipes.contract.integrity.seal import seal_content
from grpo_recipes.trust.remembered import allow
from grpo_recipes.worker._shared.planned import read_plan
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.checkpoints.checkpoint import (
    latest_checkpoint,
    put_in_place,
    remove_leftovers,
    remove_old,
    take_model,
    write_manifest,
)
from grpo_recipes.worker.resume.resuming import checkpoint_to_resume, experiment
from grpo_recipes.worker.run import _first_step

Damage = Callable[[Path], object]


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a user who has allowed nothing."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))


def checkpoint(checkpoints: Path, step: int, *, world: int = 1, values: Changes | None = None) -> Path:
    """A folder with two files and its manifest."""
    folder = checkpoints / f"checkpoint-{step}"
    (folder / "global_step").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "global_step" / "states.pt").write_bytes(b"moments")
    write_manifest(folder, step, world, values or {}, folder.parents[1])
    return folder


def retold(folder: Path, **changes: object) -> None:
    """Writes another manifest, with a seal of its own."""
    content = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(seal_content("checkpoint", {**content, **changes}))


DAMAGES: dict[str, tuple[Damage, str]] = {
    "a file is missing": (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors is missing"),
    "a file in a folder is missing": (
        lambda folder: (folder / "global_step" / "states.pt").unlink(),
        "global_step/states.pt is missing",
    ),
    "a file is cut off": (
        lambda folder: os.truncate(folder / "model.safetensors", 3),
        "model.safetensors has 3 bytes, 7 were written",
    ),
    "no manifest": (lambda folder: (folder / MANIFEST).unlink(), f"no {MANIFEST} in it"),
    "half a manifest": (lambda folder: os.truncate(folder / MANIFEST, 20), f"its {MANIFEST} cannot be read"),
    "a list for a manifest": (lambda folder: (folder / MANIFEST).write_text("[]"), f"its {MANIFEST} cannot be read"),
    "a manifest of another format": (lambda folder: retold(folder, checkpoint=3), "has format 3"),
    "a copy under another name": (lambda folder: retold(folder, step=4), "is that of step 4"),
    "transformers did not come to its end": (lambda folder: (folder / UNFINISHED).touch(), UNFINISHED),
}


def test_the_latest_checkpoint_is_the_whole_one_of_the_highest_step(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path / "none") is None
    for step in (9, 10):
        checkpoint(tmp_path, step)
    for name in ("writing/checkpoint-11", "checkpoint-old", ".removed-checkpoint-12"):
        (tmp_path / name).mkdir(parents=True)
    assert latest_checkpoint(tmp_path) == tmp_path / "checkpoint-10"


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_does_not_match_its_manifest_is_skipped_with_the_reason(tmp_path: Path, damage: str) -> None:
    change, reason = DAMAGES[damage]
    whole = checkpoint(tmp_path, 6)
    change(checkpoint(tmp_path, 8))
    newest, next_one = judge_checkpoints(tmp_path, contents=True)
    assert (newest.folder.name, next_one.folder, next_one.reason) == ("checkpoint-8", whole, None)
    assert newest.reason is not None and reason in newest.reason
    assert latest_checkpoint(tmp_path) == whole


def test_what_is_replaced_is_never_half_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = checkpoint(tmp_path, 6), checkpoint(tmp_path / "writing", 6)
    (old / "only-in-the-old").touch()
    seen = []
    replace = os.replace
    monkeypatch.setattr(
        os, "replace", lambda *paths, **handles: seen.append(old.exists()) or replace(*paths, **handles)
    )
    put_in_place(new, old)
    assert seen == [True, False]  # the old one is renamed away, then the new one takes its place
    assert not (old / "only-in-the-old").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_old_checkpoints_go_and_those_that_are_not_whole_count_for_nothing(tmp_path: Path) -> None:
    for step in (2, 4, 6, 8):
        checkpoint(tmp_path, step)
    (tmp_path / "checkpoint-8" / MANIFEST).unlink()
    remove_old(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-4", "checkpoint-6", "checkpoint-8"]


def test_the_checkpoint_of_the_best_evaluation_stays_beside_the_newest(tmp_path: Path) -> None:
    for step in (2, 4, 6, 8):
        checkpoint(tmp_path, step)
    remove_old(tmp_path, 1, kept_step=4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-4", "checkpoint-8"]
    remove_old(tmp_path, 1, kept_step=8)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-8"]


def test_a_model_is_taken_from_a_checkpoint_that_is_as_it_was_written(tmp_path: Path) -> None:
    of_best, written = checkpoint(tmp_path, 4), tmp_path / "final"
    written.mkdir()
    (written / "model.safetensors").write_bytes(b"newer weights")
    take_model(of_best, written)
    assert {path.name: path.read_bytes() for path in written.iterdir()} == {"model.safetensors": b"weights"}

    (of_best / "model.safetensors").write_bytes(b"WEIGHTS")
    with pytest.raises(Refused, match="checkpoint-4 had the best evaluation and is incomplete"):
        take_model(of_best, written)
    (written / "another.safetensors").write_bytes(b"")
    with pytest.raises(Refused, match=r"another\.safetensors of the model is not in it"):
        take_model(checkpoint(tmp_path, 6), written)


def test_what_a_kill_left_half_done_is_removed(tmp_path: Path) -> None:
    kept = checkpoint(tmp_path / "checkpoints", 6)
    left = ["checkpoints/writing/checkpoint-8", "checkpoints/.removed-checkpoint-4", ".final.writing", ".removed-final"]
    for name in left:
        (tmp_path / name).mkdir(parents=True)
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]
    assert list((tmp_path / "checkpoints").iterdir()) == [kept]


@pytest.fixture
def run(make_run: Callable[..., Path], stub_plan: Changes) -> Callable[..., Path]:
    """A run folder with a plan, changed."""

    def make(**changes: Changes) -> Path:
        stub_plan["data"] = planned_data(Path("/nonexistent"), sha256="1" * 64)
        return make_run({**stub_plan, **changes})

    return make


def test_a_run_goes_on_from_the_newest_whole_checkpoint_and_says_what_it_skips(run: Callable[..., Path]) -> None:
    folder = run()
    for step in (4, 6):
        checkpoint(folder / "checkpoints", step, values=experiment(folder))
    (folder / "checkpoints" / "checkpoint-6" / "model.safetensors").unlink()
    found, said = checkpoint_to_resume(folder, read_plan(folder))
    assert found == folder / "checkpoints" / "checkpoint-4"
    assert said == ["skipped checkpoint-6: model.safetensors is missing", "resumed from checkpoint-4"]


def test_without_a_checkpoint_it_begins_anew_and_says_so(run: Callable[..., Path]) -> None:
    folder = run()
    assert checkpoint_to_resume(folder, read_plan(folder)) == (
        None,
        ["no checkpoint was written yet: training starts at step 0"],
    )


def test_checkpoints_none_of_which_is_whole_are_not_trained_over(run: Callable[..., Path]) -> None:
    folder = run()
    (folder / "checkpoints" / "checkpoint-6").mkdir(parents=True)
    with pytest.raises(Refused, match=f"checkpoint-6: no {MANIFEST} in it") as refused:
        checkpoint_to_resume(folder, read_plan(folder))
    assert "= fix: restore one, or remove" in str(refused.value)


def test_another_number_of_processes_is_refused(run: Callable[..., Path]) -> None:
    folder = run()
    checkpoint(folder / "checkpoints", 6, world=2, values=experiment(folder))
    with pytest.raises(Refused, match="checkpoint-6 was written by 2 processes, but the plan has 1 process\n"):
        checkpoint_to_resume(folder, read_plan(folder))


TOOL = {
    "name": "add",
    "target": "t.py:add",
    "path": "/t.py",
    "sha256": "a" * 64,
    "imports": {},
    "is_async": False,
    "timeout": 10.0,
}


def edited(folder: Path, *path: str, value: object) -> None:
    """Changes one value of plan.json, as an editor does."""
    content = json.loads((folder / "plan.json").read_text())
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (folder / "plan.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("arguments", "GRPOConfig", "learning_rate"), 0.001, "GRPOConfig.learning_rate 0.003 -> 0.001"),
        (("arguments", "LoraConfig"), {"r": 4}, "LoraConfig.r none -> 4"),
        (("data", "sha256"), "2" * 64, "data.sha256 111111111111...111111111111 -> 222222222222...222222222222"),
        (("expect", "stop"), ["</answer>"], "expect.stop.0 none -> </answer>"),
        (("world", "strategy"), "ddp", "world.strategy single -> ddp"),
        (("tools",), [TOOL], "tools.0.name none -> add"),
    ],
    ids=["argument", "adapter", "data", "stop", "strategy", "tool"],
)
def test_an_experiment_that_was_changed_is_refused_and_named(
    run: Callable[..., Path], path: tuple[str, ...], value: object, said: str
) -> None:
    folder = run()
    checkpoint(folder / "checkpoints", 6, values=json.loads(json.dumps(experiment(folder))))
    edited(folder, *path, value=value)
    with pytest.raises(Refused) as refused:
        checkpoint_to_resume(folder, read_plan(folder))
    assert f"  = because: {said}" in str(refused.value)

    edited(folder, "accept_drift", value=True)
    found, lines = checkpoint_to_resume(folder, read_plan(folder))
    assert found is not None
    assert said in lines[0]


def test_what_is_told_and_where_things_lie_may_change(run: Callable[..., Path]) -> None:
    told = {"value": 1, "origin": "format 1", "why": "", "recipe_key": ""}
    settings = [{"key": "GRPOConfig.logging_steps", "kind": "bookkeeping", **told}]
    folder = run(settings=settings)
    checkpoint(folder / "checkpoints", 6, values=json.loads(json.dumps(experiment(folder))))
    edited(folder, "arguments", "GRPOConfig", "logging_steps", value=10)
    edited(folder, "data", "path", value="/elsewhere")
    edited(folder, "world", "num_nodes", value=2)
    assert checkpoint_to_resume(folder, read_plan(folder))[1] == ["resumed from checkpoint-6"]


def test_another_stack_is_told(run: Callable[..., Path]) -> None:
    folder = run()
    retold(checkpoint(folder / "checkpoints", 6, values=experiment(folder)), stack={"trl": "0.1.0"})
    said = checkpoint_to_resume(folder, read_plan(folder))[1]
    assert said[0].startswith(
        "the stack differs from that of checkpoint-6, so the result is not bit-for-bit the same: trl 0.1.0 -> "
    )


def of_an_older_grpo_run(folder: Path) -> None:
    """A manifest of format 1, sizes alone and no seal, in a run folder that has no id."""
    write_integrity(folder.parents[1], None)
    content = json.loads((folder / MANIFEST).read_text())
    del content["seal"]
    sizes = {name: found["bytes"] for name, found in content["files"].items()}
    (folder / MANIFEST).write_text(json.dumps({**content, "checkpoint": 1, "files": sizes}))


def test_a_checkpoint_of_an_older_grpo_run_is_gone_on_with_and_told(
    run: Callable[..., Path],
) -> None:
    folder = run()
    old = checkpoint(folder / "checkpoints", 6, values=json.loads(json.dumps(experiment(folder))))
    (old / "global_step" / "states.pt").unlink()
    write_manifest(old, 6, 1, experiment(folder), folder)
    of_an_older_grpo_run(old)
    assert checkpoint_to_resume(folder, read_plan(folder)) == (
        old,
        [
            "checkpoint-6 has no content hashes (older grpo-run): only the sizes of its files were compared",
            "resumed from checkpoint-6",
        ],
    )
    (old / "adapter_model.bin").touch()
    with pytest.raises(Refused, match=r"adapter_model\.bin was not written with it"):
        checkpoint_to_resume(folder, read_plan(folder))


def test_pickles_that_a_run_wrote_are_allowed(
    run: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run()
    checkpoint(folder / "checkpoints", 6, values=json.loads(json.dumps(experiment(folder))))
    assert checkpoint_to_resume(folder, read_plan(folder))[1] == ["resumed from checkpoint-6"]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "of another user"))
    with pytest.raises(Refused, match=r"because: global_step/states\.pt are pickles") as refused:
        checkpoint_to_resume(folder, read_plan(folder))
    allow([str(refused.value).rpartition(" ")[2]])
    assert checkpoint_to_resume(folder, read_plan(folder))[1] == ["resumed from checkpoint-6"]


def test_a_user_without_a_list_is_told_that_resume_asks(
    run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", os.devnull)
    checkpoint(run() / "checkpoints", 6)
    assert "note: --resume will ask for --allow-code, since allowed.json cannot be written: " in capsys.readouterr().out


def test_pickles_of_an_older_grpo_run_are_asked_for(
    run: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run()
    of_an_older_grpo_run(checkpoint(folder / "checkpoints", 6, values=json.loads(json.dumps(experiment(folder)))))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "of another user"))
    with pytest.raises(Refused, match=r"because: global_step/states\.pt are pickles") as refused:
        checkpoint_to_resume(folder, read_plan(folder))
    allow([str(refused.value).rpartition(" ")[2]])
    assert checkpoint_to_resume(folder, read_plan(folder))[1][-1] == "resumed from checkpoint-6"


def test_a_checkpoint_that_another_process_found_damaged_is_not_looked_into_again(run: Callable[..., Path]) -> None:
    folder = run()
    newest = checkpoint(folder / "checkpoints", 6, values=json.loads(json.dumps(experiment(folder))))
    (newest / "model.safetensors").write_bytes(b"weighTs")
    assert checkpoint_to_resume(folder, read_plan(folder), contents=False)[0] == newest
    with pytest.raises(Refused, match=r"model\.safetensors has the sha256"):
        checkpoint_to_resume(folder, read_plan(folder))


def test_a_run_that_never_trained_starts_without_a_word(
    run: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run()
    record = Record(folder, 0)
    record.start(resumed=True)
    assert _first_step(read_plan(folder), folder, record, resume=True) is None
    assert capsys.readouterr().out == ""
    record.update(launches=1)
    record.start(resumed=True)
    _first_step(read_plan(folder), folder, record, resume=True)
    assert capsys.readouterr().out == "no checkpoint was written yet: training starts at step 0\n"
