"""Rendered rows of a run folder are taken again where this user signed them, and rendered again in every other case."""

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from worker_runs import planned_data

from grpo_recipes.contract.integrity.digests import digest_of
from grpo_recipes.contract.integrity.seal import Key, opened, sealed
from grpo_recipes.contract.plan import Data
from grpo_recipes.worker.data import kept_rows

pytestmark = pytest.mark.stack

PLACE = "rendered/dataset-0"
PURPOSE = "rendered rows"
RIGHT = [f"{a}+{a * b}=" for a in range(3, 19) for b in range(2, 6)]


@pytest.fixture(autouse=True)
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A key of this test alone, and no number of a machine."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("GROUP_RANK", raising=False)
    return tmp_path / "config" / "grpo-run" / "key"


def prompts(sums: Path, cache: Path, seen: dict[str, object] | None = None, **changes: object) -> list[str]:
    from grpo_recipes.worker.data.dataset import prepared_rows

    planned = Data(**planned_data(sums, **changes))
    return [row["prompt"][-1]["content"] for row in prepared_rows(planned, "dataset", cache, 0, seen)]


def made(cache: Path) -> int:
    """What tells one rendering from the next."""
    return (cache / PLACE / "rows.arrow").stat().st_mtime_ns


def resumed(sums: Path, cache: Path, **changes: object) -> tuple[list[str], bool]:
    """The prompts of a resume, and whether they were rendered again."""
    from grpo_recipes.worker.data.dataset import without_cache

    before = made(cache)
    without_cache(cache)
    found = prompts(sums, cache, **changes)
    return found, made(cache) != before


def test_a_resume_and_the_other_processes_render_nothing_again(sums: Path, tmp_path: Path) -> None:
    cache, first, second = tmp_path / "cache", dict[str, object](), dict[str, object]()
    assert prompts(sums, cache, first) == RIGHT
    rendered = made(cache)
    assert prompts(sums, cache, second) == RIGHT
    assert second == first and first["dataset.rows"] == len(RIGHT)
    assert made(cache) == rendered
    assert resumed(sums, cache) == (RIGHT, False)
    assert sorted(os.listdir(cache)) == ["rendered"], "the data file itself is not read as rows either"


def _moved(sums: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(sums, tmp_path / "elsewhere.jsonl"))


def test_the_rows_of_data_that_was_moved_are_taken(sums: Path, tmp_path: Path) -> None:
    prompts(sums, tmp_path / "cache")
    assert resumed(_moved(sums, tmp_path), tmp_path / "cache") == (RIGHT, False)


def test_each_machine_has_its_own(sums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts(sums, tmp_path / "cache")
    monkeypatch.setenv("GROUP_RANK", "1")
    prompts(sums, tmp_path / "cache")
    assert (tmp_path / "cache/rendered/dataset-1/rows.arrow").exists()


OTHERS = {
    "another template": ({"prompt": "{{ question }}?"}, [f"{one}?" for one in RIGHT]),
    "other columns": ({"columns": {}}, RIGHT),
    "fewer rows": ({"max_rows": 3}, RIGHT[:3]),
    "a system prompt": ({"system_prompt": "Think."}, RIGHT),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_planned_otherwise_is_rendered(what: str, sums: Path, tmp_path: Path) -> None:
    changes, right = OTHERS[what]
    prompts(sums, tmp_path / "cache")
    assert resumed(sums, tmp_path / "cache", **changes) == (right, True)


def test_data_that_changed_is_rendered(sums: Path, tmp_path: Path) -> None:
    moved = _moved(sums, tmp_path)
    prompts(moved, tmp_path / "cache")
    moved.write_text(moved.read_text().replace("3+6=", "6+3="))
    assert resumed(moved, tmp_path / "cache") == (["6+3=", *RIGHT[1:]], True)


@pytest.mark.parametrize("what", ["a release", "the code"])
def test_rows_of_other_releases_are_rendered(
    what: str, sums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts(sums, tmp_path / "cache")
    if what == "a release":
        monkeypatch.setattr(kept_rows.metadata, "version", lambda name: "9.9")
    else:
        shutil.copytree(Path(kept_rows.__file__).parent, tmp_path / "code")
        (tmp_path / "code" / "templates.py").write_text("# another one\n")
        monkeypatch.setattr(kept_rows, "__file__", str(tmp_path / "code" / "kept_rows.py"))
    assert resumed(sums, tmp_path / "cache") == (RIGHT, True)


def _poisoned(place: Path) -> None:
    rows = place / "rows.arrow"
    content = rows.read_bytes()
    assert b"3+6=" in content
    rows.write_bytes(content.replace(b"3+6=", b"9+9="))


def _resealed(place: Path, key: Key | None = None) -> None:
    """What a stranger does who writes the list anew, with a key of his own."""
    _poisoned(place)
    content = opened(PURPOSE, (place / "rows.json").read_text()).content
    content["sha256"] = digest_of(place, "rows.arrow").sha256
    (place / "rows.json").write_text(sealed(PURPOSE, content, key or Key(os.urandom(32), "0123456789abcdef")))


def _resealed_in_your_name(place: Path) -> None:
    key = opened(PURPOSE, (place / "rows.json").read_text())
    assert key.signer == "you"
    text = (place / "rows.json").read_text()
    your_id = json.loads(text)["seal"]["key"]
    _resealed(place, Key(os.urandom(32), your_id))


def _linked(place: Path, name: str) -> None:
    outside = place.parents[2] / f"outside-{name}"
    shutil.move(place / name, outside)
    (place / name).symlink_to(outside)


def _all_linked(place: Path) -> None:
    shutil.move(place, place.parents[2] / "outside-all")
    place.symlink_to(place.parents[2] / "outside-all")


RECEIVED: dict[str, Callable[[Path], object]] = {
    "other bytes": _poisoned,
    "no list": lambda place: (place / "rows.json").unlink(),
    "a list that is none": lambda place: (place / "rows.json").write_text("[" * 10_000),
    "a list of a stranger": _resealed,
    "a list that is signed in your name": _resealed_in_your_name,
    "a list of another kind": lambda place: (place / "rows.json").write_text(sealed(PURPOSE, {"rows": 1})),
    "a link for the rows": lambda place: [_poisoned(place), _linked(place, "rows.arrow")],
    "a link for the list": lambda place: _linked(place, "rows.json"),
    "a link for both": _all_linked,
    "no rows": lambda place: (place / "rows.arrow").unlink(),
    "a folder for the rows": lambda place: [(place / "rows.arrow").unlink(), (place / "rows.arrow").mkdir()],
}


@pytest.mark.parametrize("what", RECEIVED)
def test_rows_that_this_user_did_not_sign_are_not_taken(what: str, sums: Path, tmp_path: Path) -> None:
    from grpo_recipes.worker.data.dataset import without_cache

    cache = tmp_path / "run" / "cache"
    cache.parent.mkdir()
    prompts(sums, cache)
    RECEIVED[what](cache / PLACE)
    outside = {path: path.read_bytes() for path in tmp_path.glob("outside*/**/*") if path.is_file()}
    outside |= {path: path.read_bytes() for path in tmp_path.glob("outside*") if path.is_file()}
    without_cache(cache)
    assert prompts(sums, cache) == RIGHT
    assert {path: path.read_bytes() for path in outside} == outside
    assert prompts(sums, cache) == RIGHT and resumed(sums, cache) == (RIGHT, False)


def test_rows_of_another_run_do_not_fit(sums: Path, tmp_path: Path) -> None:
    """Both are signed by this user; a stranger could lay one into the place of the other."""
    prompts(sums, tmp_path / "a", prompt="9+9=")
    prompts(sums, tmp_path / "b")
    shutil.rmtree(tmp_path / "b" / PLACE)
    shutil.copytree(tmp_path / "a" / PLACE, tmp_path / "b" / PLACE)
    assert prompts(sums, tmp_path / "b") == RIGHT


def test_a_user_without_a_key_renders_again(sums: Path, tmp_path: Path, own_key: Path) -> None:
    prompts(sums, tmp_path / "cache")
    own_key.unlink()
    own_key.mkdir()
    assert resumed_anew(sums, tmp_path / "cache") == RIGHT
    assert resumed_anew(sums, tmp_path / "cache") == RIGHT


def resumed_anew(sums: Path, cache: Path) -> list[str]:
    from grpo_recipes.worker.data.dataset import without_cache

    without_cache(cache)
    assert not cache.exists()
    return prompts(sums, cache)


def test_a_folder_of_files_is_read_by_each(sums: Path, tmp_path: Path) -> None:
    """Its cards may name files that lie elsewhere, so nobody can say what its rows are made of."""
    (tmp_path / "files").mkdir()
    shutil.copy(sums, tmp_path / "files" / "train.jsonl")
    changes = {"source": "folder", "format": None}
    assert prompts(tmp_path / "files", tmp_path / "cache", **changes) == RIGHT
    assert not (tmp_path / "cache" / "rendered").exists()


def test_a_dataset_of_the_hub_is_known_by_its_commit() -> None:
    hub = Data(**planned_data(Path("a/b"), source="hub"))
    assert kept_rows.decided_by(hub, "dataset", None) is None
    commits = [replace(hub, commit=digit * 40) for digit in "01"]
    found = {kept_rows.decided_by(one, "dataset", None) for one in (*commits, replace(commits[0], path="a/c"))}
    assert len(found) == 3 and None not in found


OWN = """
import sys
from pathlib import Path
sys.path[:0] = [{tests!r}]
from grpo_recipes.contract.plan import Data
from grpo_recipes.worker.data import dataset
from worker_runs import planned_data
slow = dataset.rendered_rows
def told(*given):
    print("renders", flush=True)
    return slow(*given)
dataset.rendered_rows = told
rows = dataset.prepared_rows(Data(**planned_data({sums!r})), "dataset", Path({cache!r}), int(sys.argv[1]))
print(len(rows), rows[0]["prompt"][-1]["content"])
"""


@pytest.mark.processes
def test_one_process_of_a_machine_renders_for_the_others(sums: Path, tmp_path: Path, warm_python: Path) -> None:
    code = OWN.format(tests=str(Path(__file__).parent), sums=str(sums), cache=str(tmp_path / "cache"))
    words = [str(warm_python / "python"), "-Xwarm"]
    with contextlib.ExitStack() as stack:
        children = [
            stack.enter_context(subprocess.Popen([*words, "-c", code, str(rank)], stdout=subprocess.PIPE, text=True))
            for rank in range(3)
        ]
        said = [child.communicate(timeout=100)[0] for child in children]
    assert all(child.returncode == 0 for child in children)
    assert sorted(said) == [f"{len(RIGHT)} 3+6=\n"] * 2 + [f"renders\n{len(RIGHT)} 3+6=\n"]
