"""A run that is used is as it was written, or the command names the file that is not; what shows a run marks it."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from stage_runs import FIRST, Run
from support.archives import ARCHIVE

from grpo_recipes.cli.trained_run import read_trained_run
from grpo_recipes.cli.verify import verify_folder
from grpo_recipes.contract.integrity.manifest import MANIFEST

pytestmark = pytest.mark.stack

GrpoRun = Callable[..., Any]
OF_THE_RUN = ("integrity.json", "plan.json", "run.json")
NEWEST, FINAL = "checkpoints/checkpoint-2", "final"
# What no command that uses a run reads of it.
NOT_CHECKED = {
    "metrics.jsonl": "grows while the run goes on",
    "completions.jsonl": "grows while the run goes on",
    "train.log": "grows while the run goes on",
    ".lock": "says who uses the folder now",
    ".training.lock": "says who trained there",
    "cache/": "is made anew where it is needed, and has its own digest",
    "checkpoints/checkpoint-1/": "is not the checkpoint that is used",
    "recipe.yaml": "is for people: the recipe that counts is in plan.json",
    "accelerate.yaml": "starts the run itself, and --verify compares it",
    "launch.sh": "starts the run itself, and --verify compares it",
    "worker/": "starts the run itself, and --verify compares it",
    f"{FINAL}/README.md": "is for people, who may write on it",
    f"{NEWEST}/README.md": "is for people, who may write on it",
}


class Runs(NamedTuple):
    """used: a copy that a test may damage. other: a run of the same recipe and another seed."""

    used: Path
    other: Path


@pytest.fixture(scope="module")
def trained(staged: Callable[..., Run]) -> Runs:
    training = {**FIRST["training"], "save_steps": 1}  # type: ignore[dict-item]
    runs = [staged(name, training=training, seed=seed) for name, seed in (("used", 1), ("stranger", 2))]
    assert [run.code for run in runs] == [0, 0], runs[0].said + runs[1].said
    return Runs(runs[0].folder, runs[1].folder)


@pytest.fixture
def runs(trained: Runs, tmp_path: Path) -> Runs:
    return Runs(shutil.copytree(trained.used, tmp_path / "used"), trained.other)


def files_of(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def is_checked(name: str) -> bool:
    return not any(name == other or (other.endswith("/") and name.startswith(other)) for other in NOT_CHECKED)


def flipped(runs: Runs, name: str) -> bytes | None:
    content = bytearray((runs.used / name).read_bytes())
    content[len(content) // 2] ^= 1
    return bytes(content)


def edited(runs: Runs, name: str) -> bytes | None:
    return (runs.used / name).read_bytes() + b"\n"


def of_another_run(runs: Runs, name: str) -> bytes | None:
    return (runs.other / name).read_bytes()


def of_another_checkpoint(runs: Runs, name: str) -> bytes | None:
    file = runs.used / "checkpoints/checkpoint-1" / Path(name).name
    return file.read_bytes() if "/" in name and file.is_file() else (runs.used / name).read_bytes()


def deleted(runs: Runs, name: str) -> bytes | None:
    return None


DAMAGES = (flipped, edited, of_another_run, of_another_checkpoint, deleted)


def each_damage(runs: Runs, names: list[str], damage: Callable[[Runs, str], bytes | None]) -> Iterator[str]:
    """The files that are damaged, one after the other; each is as it was when the next one is."""
    for name in names:
        file, content = runs.used / name, damage(runs, name)
        before = file.read_bytes()
        if content == before:
            continue  # both runs have the same tokenizer
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        yield name
        file.write_bytes(before)


@pytest.fixture
def using(runs: Runs, tmp_path: Path, grpo_run: GrpoRun) -> dict[str, Callable[[], Any]]:
    """The commands that use a run, by their names and the folder of weights that each takes."""

    def recipe(name: str, place: Path) -> str:
        file = tmp_path / f"{name}.yaml"
        changes = {"name": "later", "model": {"from_run": str(place)}, "lora": {"continue": True}}
        file.write_text(json.dumps({**FIRST, **changes}))
        return str(file)

    of_final, of_checkpoint = recipe("of-final", runs.used), recipe("of-checkpoint", runs.used / NEWEST)
    out, used = ("--out", str(tmp_path / "out")), str(runs.used)
    return {
        f"validate {FINAL}": lambda: grpo_run("validate", of_final),
        f"plan {FINAL}": lambda: grpo_run("plan", of_final),
        f"run {FINAL}": lambda: grpo_run(of_final, *out),
        f"validate {NEWEST}": lambda: grpo_run("validate", of_checkpoint),
        f"extend {NEWEST}": lambda: grpo_run(used, "--extend", "training.max_steps=4", *out),
        f"export {FINAL}": lambda: grpo_run("export", used, *out),
        f"generate {FINAL}": lambda: grpo_run("generate", used, "1+1="),
    }


def not_refused(answer: Any, name: str, out: Path) -> str | None:
    """What of a refusal is missing, None where all of it is there."""
    text = answer.out + answer.err
    words = [name, "= because: ", "= fix: "]
    missing = [word for word in words if word not in text]
    if answer.code == 2 and not missing and not out.exists() and "Traceback" not in text:
        return None
    return f"exit {answer.code}, without {missing}: {text[:400]}"


def test_every_file_of_a_run_is_checked_or_said_why_not(runs: Runs) -> None:
    checked = [name for name in files_of(runs.used) if is_checked(name)]
    assert {Path(name).parent.as_posix() for name in checked} == {".", FINAL, NEWEST}
    assert {name for name in checked if "/" not in name} == set(OF_THE_RUN)
    weights = ("adapter_model.safetensors", "adapter_config.json", "chat_template.jinja", "tokenizer.json", MANIFEST)
    assert {f"{part}/{name}" for part in (FINAL, NEWEST) for name in weights} <= set(checked)
    unmet = [other for other in NOT_CHECKED if not any(name.startswith(other) for name in files_of(runs.used))]
    assert unmet == []


@pytest.mark.parametrize(
    "damage",
    [pytest.param(one, id=one.__name__, marks=[pytest.mark.long] * (one is edited)) for one in DAMAGES],
)
def test_a_damaged_file_is_refused_by_name_wherever_it_is_used(
    damage: Callable[[Runs, str], bytes | None], runs: Runs, using: dict[str, Callable[[], Any]], tmp_path: Path
) -> None:
    wrong, tried = {}, 0
    for name in each_damage(runs, [name for name in files_of(runs.used) if is_checked(name)], damage):
        for command, ask in using.items():
            if name in OF_THE_RUN or name.startswith(f"{command.split()[1]}/"):
                tried += 1
                because = not_refused(ask(), name, tmp_path / "out")
                wrong |= {f"{command}: {name}": because} if because is not None else {}
    assert wrong == {}
    assert tried >= 10


def test_what_is_as_it_was_written_is_used(runs: Runs, using: dict[str, Callable[[], Any]], grpo_run: GrpoRun) -> None:
    moved = runs.used.with_name("moved to another place")
    runs.used.rename(moved)
    shutil.copytree(moved, runs.used)
    shutil.rmtree(moved)
    (runs.used / FINAL / "README.md").write_text("written on by a person")
    (runs.used / FINAL / "model.gguf").write_bytes(b"made of it by another program")
    (runs.used / FINAL / ".gitattributes").touch()
    for command, ask in using.items():
        if command.split()[0] in ("validate", "plan"):
            answer = ask()
            assert (answer.code, "warning" in answer.out + answer.err) == (0, False), answer
    assert read_trained_run(str(runs.used), (), with_rewards=False)[1] == str(runs.used)
    assert "changed" not in grpo_run("watch", str(runs.used)).err
    assert "changed" not in grpo_run("runs", str(runs.used)).out


@pytest.mark.parametrize("part", [FINAL, NEWEST])
def test_all_of_another_runs_weights_are_refused(
    part: str, runs: Runs, using: dict[str, Callable[[], Any]], tmp_path: Path
) -> None:
    """Each file fits the manifest that came with them."""
    shutil.rmtree(runs.used / part)
    shutil.copytree(runs.other / part, runs.used / part)
    for command, ask in using.items():
        if command.endswith(part):
            answer = ask()
            assert not_refused(answer, f"{part}/{MANIFEST}", tmp_path / "out") is None, command
            assert "it belongs to a different run" in answer.out + answer.err
    assert [fault.name for fault in verify_folder(runs.used).faults] == [part]


def test_the_identity_of_another_run_does_not_fit_the_weights(runs: Runs, using: dict[str, Callable[[], Any]]) -> None:
    for name in OF_THE_RUN:
        shutil.copy(runs.other / name, runs.used / name)
    for command, ask in using.items():
        answer = ask()
        assert answer.code == 2
        assert f"{command.split()[1]}/{MANIFEST} was changed" in answer.out + answer.err


@pytest.mark.parametrize(
    "lost", [("integrity.json",), ("integrity.json", "worker"), ("run.json", "integrity.json", "worker")]
)
def test_a_run_that_lost_its_hashes_is_no_old_run(
    lost: tuple[str, ...], runs: Runs, using: dict[str, Callable[[], Any]]
) -> None:
    for name in lost:
        shutil.rmtree(runs.used / name) if (runs.used / name).is_dir() else (runs.used / name).unlink()
    for command, ask in using.items():
        answer = ask()
        assert (answer.code, "integrity.json is missing" in answer.out + answer.err) == (2, True), command


def test_a_seal_that_was_taken_away_is_missed(runs: Runs, using: dict[str, Callable[[], Any]]) -> None:
    record = json.loads((runs.used / "run.json").read_text())
    (runs.used / "run.json").write_text(json.dumps({key: record[key] for key in record if key != "seal"}))
    for ask in using.values():
        answer = ask()
        assert answer.code == 2
        assert "run.json was changed" in answer.out + answer.err
        assert "its seal is missing" in answer.out + answer.err


def test_a_run_without_hashes_is_used_with_one_warning(
    runs: Runs, using: dict[str, Callable[[], Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (f"{FINAL}/{MANIFEST}", "integrity.json"):
        (runs.used / name).unlink()
    (runs.used / ARCHIVE).unlink()
    record = json.loads((runs.used / "run.json").read_text())
    older = {key: value for key, value in record.items() if key not in ("seal", "run_id")}
    (runs.used / "run.json").write_text(json.dumps(older))
    answer = using[f"validate {FINAL}"]()
    assert (answer.code, answer.out.count("has no content hashes")) == (0, 1), answer
    read_trained_run(str(runs.used), (), with_rewards=False)
    assert capsys.readouterr().err.count("has no content hashes") == 1


def test_large_weights_are_read_by_what_starts_the_run(
    runs: Runs, using: dict[str, Callable[[], Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grpo_recipes.contract.integrity import used_run

    monkeypatch.setattr(used_run, "SMALL_BYTES", 100_000)
    weights = f"{FINAL}/adapter_model.safetensors"
    for _ in each_damage(runs, [weights], flipped):
        assert using[f"validate {FINAL}"]().code == 0
        for command in ("run", "export", "generate"):
            assert not_refused(using[f"{command} {FINAL}"](), weights, tmp_path / "out") is None, command
    for _ in each_damage(runs, [weights], edited):
        assert not_refused(using[f"validate {FINAL}"](), weights, tmp_path / "out") is None


def page_of(grpo_run: GrpoRun, runs: Runs, tmp_path: Path) -> str:
    page = tmp_path / "page.html"
    page.unlink(missing_ok=True)
    answer = grpo_run("report", str(runs.used), "-o", str(page))
    return page.read_text() if answer.code == 0 else str(answer.out + answer.err)


@pytest.mark.parametrize("damage", [edited, of_another_run, deleted], ids=lambda damage: damage.__name__)
def test_what_shows_a_run_marks_a_plan_or_record_that_was_changed(
    damage: Callable[[Runs, str], bytes | None], runs: Runs, grpo_run: GrpoRun, tmp_path: Path
) -> None:
    def told(*arguments: str) -> str:
        answer = grpo_run(*arguments)
        return str(answer.out + answer.err)

    used, other = str(runs.used), str(runs.other)
    shown: dict[str, Callable[[], str]] = {
        "runs": lambda: told("runs", str(tmp_path)),
        "runs --json": lambda: told("runs", str(tmp_path), "--json"),
        "report": lambda: page_of(grpo_run, runs, tmp_path),
        "watch": lambda: told("watch", used),
        "watch --json": lambda: told("watch", used, "--json"),
        "diff": lambda: told("diff", other, used),
        "diff --json": lambda: told("diff", other, used, "--json"),
        "diff --format markdown": lambda: told("diff", other, used, "--format", "markdown"),
    }
    marks = {name: [f"{name} was changed", f"{name} is missing"] for name in OF_THE_RUN}
    marks["plan.json"] += ["plan.json: No such file"]
    marks["integrity.json"] += ["says integrity.json next to it"]
    before = {command: show() for command, show in shown.items()}
    assert [command for command, text in before.items() if any(m in text for ms in marks.values() for m in ms)] == []
    wrong = {
        f"{command}: {name}": text[:300]
        for name in each_damage(runs, list(OF_THE_RUN), damage)
        for command, show in shown.items()
        if not any(mark in (text := show()) for mark in marks[name])
        and not (name == "run.json" and "watch" in command and damage is deleted)
    }
    assert wrong == {}


@pytest.fixture(scope="module")
def whole(staged: Callable[..., Run]) -> Path:
    """A run that trained all weights."""
    run = staged("all-weights", lora=None)
    assert run.code == 0, run.said
    return run.folder


COPIED_FILES = {FINAL: "adapter_model.safetensors", NEWEST: "adapter_model.safetensors", "whole": "model.safetensors"}


@pytest.mark.parametrize("part", COPIED_FILES)
@pytest.mark.parametrize("damage", [flipped, edited, deleted], ids=lambda damage: damage.__name__)
def test_a_copy_of_what_was_trained_is_checked_by_its_own_manifest(
    part: str,
    damage: Callable[[Runs, str], bytes | None],
    runs: Runs,
    whole: Path,
    grpo_run: GrpoRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from grpo_recipes.contract.integrity import used_run

    copy, out = tmp_path / "copy", tmp_path / "out"
    shutil.copytree(whole / FINAL if part == "whole" else runs.used / part, copy)
    model = {"model_name_or_path" if part == "whole" else "from_run": "./copy"}
    (tmp_path / "later.yaml").write_text(json.dumps({**FIRST, "name": "later", "model": model}))
    later = str(tmp_path / "later.yaml")
    (copy / "notes.txt").write_text("added by a person")
    for file in copy.glob("*.pt"):
        file.unlink()
    answer = grpo_run("validate", later)
    assert (answer.code, "warning" in answer.out + answer.err) == (0, False), answer
    copied = Runs(copy, runs.other)
    for name in each_damage(copied, [COPIED_FILES[part], "tokenizer.json"], damage):
        for command in (["validate", later], [later, "--out", str(out)]):
            answer = grpo_run(*command)
            assert not_refused(answer, name, out) is None, command
            assert "remove grpo_run.json from the folder" in answer.out + answer.err
    monkeypatch.setattr(used_run, "SMALL_BYTES", 1000)
    for name in each_damage(copied, [COPIED_FILES[part]], flipped):
        assert grpo_run("validate", later).code == 0
        assert not_refused(grpo_run(later, "--out", str(out)), name, out) is None
        (copy / MANIFEST).unlink()
        assert grpo_run("validate", later).code == 0


def test_a_model_inside_its_run_is_checked_where_it_is_named(whole: Path, grpo_run: GrpoRun, tmp_path: Path) -> None:
    used = Runs(shutil.copytree(whole, tmp_path / "whole"), whole)
    model = {"model_name_or_path": f"./whole/{FINAL}"}
    (tmp_path / "later.yaml").write_text(json.dumps({**FIRST, "name": "later", "model": model}))
    assert grpo_run("validate", str(tmp_path / "later.yaml")).code == 0
    for _ in each_damage(used, [f"{FINAL}/model.safetensors"], flipped):
        answer = grpo_run("validate", str(tmp_path / "later.yaml"))
        assert not_refused(answer, "model.safetensors was changed", tmp_path / "out") is None


def test_a_run_with_the_model_of_another_is_marked(runs: Runs, grpo_run: GrpoRun) -> None:
    assert "changed" not in grpo_run("runs", str(runs.used.parent)).out
    for name in OF_THE_RUN:
        shutil.copy(runs.other / name, runs.used / name)
    assert f"{FINAL}/{MANIFEST} was changed" in grpo_run("runs", str(runs.used.parent)).err
    for name in ("integrity.json", "run.json"):
        (runs.used / name).unlink()
    shutil.rmtree(runs.used / "worker")
    assert "integrity.json is missing" in grpo_run("runs", str(runs.used.parent)).err
