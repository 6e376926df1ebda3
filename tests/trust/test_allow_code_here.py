"""`--allow-code here`: a folder of one's own stays allowed after an edit, is told, and can be forgotten."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.trust.code import CodePart
from grpo_recipes.trust.folders import allowed_folders, consent

HERE = ("here",)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/.config"))
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/recipe.yaml").write_text("recipe: 1\n")
    return tmp_path / "mine/recipe.yaml"


def _part(file: Path, text: str, kind: str = "python reward") -> CodePart:
    """A file and the part of a plan that has it."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return CodePart(kind, str(file), hashlib.sha256(text.encode()).hexdigest())


def test_without_the_word_each_edit_is_asked_for(recipe: Path) -> None:
    part = _part(recipe.with_name("r.py"), "one")
    consent([part], (part.sha256,), [str(recipe)])
    assert consent([part], (), [str(recipe)]) == []
    with pytest.raises(Refusal, match=r"(?s)not allowed to run yet.*`here` instead of a sha256"):
        consent([_part(recipe.with_name("r.py"), "two")], (), [str(recipe)])


def test_an_edit_in_an_allowed_folder_is_told_and_not_asked_for(recipe: Path) -> None:
    file = recipe.with_name("r.py")
    told = consent([_part(file, "one")], HERE, [str(recipe)])
    assert len(told) == 1
    assert told[0].startswith(f"code in {recipe.parent} allowed since 2")
    assert told[0].endswith(f"by `--allow-code here`; forget with grpo-run allowed --forget {recipe.parent}")
    parts = [_part(file, "two"), _part(file.with_name("h.py"), "three", "file imported by a reward")]
    assert consent([*parts, _part(recipe.parent / "sub/r.py", "four")], (), [str(recipe)]) == told


def test_the_folder_is_known_by_every_name_of_it(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = _part(recipe.with_name("r.py"), "one")
    (tmp_path / "link").symlink_to(recipe.parent)
    assert consent([part], HERE, [str(tmp_path / "link/recipe.yaml")])
    assert [one.path for one in allowed_folders()] == [os.path.realpath(recipe.parent)]
    monkeypatch.chdir(recipe.parent)
    assert consent([part], (), ["recipe.yaml"])


def test_a_second_recipe_of_the_folder_needs_no_word(recipe: Path) -> None:
    part = _part(recipe.with_name("r.py"), "one")
    consent([part], HERE, [str(recipe)])
    second = recipe.with_name("second.yaml")
    second.write_text("recipe: 1\n")
    assert consent([part], (), [str(second)])
    below = recipe.parent / "below/recipe.yaml"
    _part(below, "recipe: 1\n")
    assert consent([_part(below.with_name("r.py"), "two")], (), [str(below)])
    assert len(allowed_folders()) == 1


@pytest.mark.parametrize("written", ["sub", "sub/r.py", "sub/recipe.yaml"])
def test_what_others_can_write_below_the_folder_is_asked_for(written: str, recipe: Path) -> None:
    consent([_part(recipe.with_name("r.py"), "one")], HERE, [str(recipe)])
    part = _part(recipe.parent / "sub/r.py", "two")
    below = recipe.parent / "sub/recipe.yaml"
    below.write_text("recipe: 1\n")
    assert consent([part], (), [str(below)])
    changed = _part(recipe.parent / "sub/r.py", "three")
    (recipe.parent / written).chmod(0o777)
    with pytest.raises(Refusal, match=f"mine/{written} can be written by others"):
        consent([changed], (), [str(below)])


def test_a_moved_folder_is_asked_for_again(recipe: Path, tmp_path: Path) -> None:
    consent([_part(recipe.with_name("r.py"), "one")], HERE, [str(recipe)])
    recipe.parent.rename(tmp_path / "moved")
    moved = tmp_path / "moved/recipe.yaml"
    with pytest.raises(Refusal, match="not allowed to run yet"):
        consent([_part(moved.with_name("r.py"), "one")], (), [str(moved)])
    assert consent([_part(moved.with_name("r.py"), "one")], HERE, [str(moved)])
    assert len(allowed_folders()) == 2


def test_a_parent_is_allowed_with_the_recipe_that_names_it(recipe: Path, tmp_path: Path) -> None:
    base = tmp_path / "shared/base.yaml"
    _part(base, "recipe: 1\n")
    parts = [_part(recipe.with_name("r.py"), "one"), _part(base.with_name("r.py"), "two")]
    files = [str(recipe), str(base)]
    assert len(consent(parts, HERE, files)) == 2
    assert [one.path for one in allowed_folders()] == [str(recipe.parent), str(base.parent)]
    assert len(consent([_part(base.with_name("r.py"), "three")], (), files)) == 2


def test_a_parent_elsewhere_does_not_say_what_of_the_folder_runs(recipe: Path, tmp_path: Path) -> None:
    consent([_part(recipe.with_name("r.py"), "one")], HERE, [str(recipe)])
    (tmp_path / "base.yaml").write_text("recipe: 1\n")
    with pytest.raises(Refusal, match="not allowed to run yet"):
        consent([_part(recipe.with_name("r.py"), "two")], (), [str(recipe), str(tmp_path / "base.yaml")])


def test_a_recipe_below_its_parent_allows_the_folder_of_the_parent(recipe: Path) -> None:
    below = recipe.parent / "m/x.yaml"
    part = _part(below, "extends: ../recipe.yaml\n")
    assert consent([_part(recipe.with_name("r.py"), "one")], HERE, [str(below), str(recipe)])
    assert [one.path for one in allowed_folders()] == [str(recipe.parent)]
    assert consent([part], (), [str(recipe)])


def test_code_elsewhere_is_not_that_of_the_folder(recipe: Path, tmp_path: Path) -> None:
    other = _part(tmp_path / "other/r.py", "one")
    recipe.with_name("r.py").symlink_to("../other/r.py")
    for part in (other, CodePart(other.kind, str(recipe.with_name("r.py")), other.sha256)):
        with pytest.raises(
            Refusal, match=f"(?s)not allowed to run yet.*allows the code below {recipe.parent}, no other"
        ):
            consent([part], HERE, [str(recipe)])


def test_a_run_goes_on_with_what_ran_and_with_nothing_else(recipe: Path) -> None:
    ran = _part(recipe.with_name("r.py"), "one")
    consent([ran], HERE, [str(recipe)])
    edited = _part(recipe.with_name("r.py"), "two")
    assert consent([ran], (), []) == ["code of this run ran before, from a folder that `--allow-code here` allowed"]
    for part in (edited, CodePart("pickles", "checkpoint", ran.sha256), CodePart("remote code", "m", ran.sha256)):
        with pytest.raises(Refusal, match="not allowed to run yet"):
            consent([part], (), [])
    with pytest.raises(Refusal, match="it is for a recipe in your own folder"):
        consent([ran], HERE, [])


def test_what_was_refused_is_not_remembered_as_run(recipe: Path) -> None:
    part, other = _part(recipe.with_name("r.py"), "one"), CodePart("remote code", "m", "b" * 64)
    with pytest.raises(Refusal, match="remote code m"):
        consent([part, other], HERE, [str(recipe)])
    assert [one.digests for one in allowed_folders()] == [()]


def test_the_word_without_code_allows_nothing_and_says_so(recipe: Path) -> None:
    assert consent([], HERE, [str(recipe)]) == ["--allow-code here allows no folder: this recipe has no code in files"]
    with pytest.raises(Refusal):
        consent([CodePart("environment variable", "A=1", "c" * 64)], HERE, [str(recipe)])
    assert allowed_folders() == []


def test_another_user_is_not_asked_less(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = _part(recipe.with_name("r.py"), "one")
    consent([part], HERE, [str(recipe)])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    with pytest.raises(Refusal, match="not allowed to run yet"):
        consent([part], (), [str(recipe)])
    assert not (tmp_path / "another").exists()


def test_allowed_folders_are_listed_and_forgotten(
    recipe: Path, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (grpo_run("allowed").code, grpo_run("allowed").out) == (0, "")
    part = _part(recipe.with_name("r.py"), "one")
    consent([part], HERE, [str(recipe)])
    since = allowed_folders()[0].since
    assert grpo_run("allowed").out == f"{since}  {recipe.parent}\n"
    rows = [{"path": str(recipe.parent), "since": since}]
    assert json.loads(grpo_run("allowed", "--json").out) == {"folders": rows}
    answer = grpo_run("allowed", "--forget", str(recipe.parent.parent))
    assert (answer.code, "was not allowed" in answer.err) == (2, True)
    monkeypatch.chdir(recipe.parent)
    assert grpo_run("allowed", "--forget", ".").code == 0
    assert allowed_folders() == []
    for files in ([str(recipe)], []):
        with pytest.raises(Refusal, match="not allowed to run yet"):
            consent([part], (), files)


def test_a_folder_that_is_gone_can_be_forgotten(recipe: Path, grpo_run: Callable) -> None:
    consent([_part(recipe.with_name("r.py"), "one")], HERE, [str(recipe)])
    recipe.parent.rename(recipe.parent.with_name("gone"))
    assert grpo_run("allowed", "--forget", str(recipe.parent)).code == 0
    assert allowed_folders() == []
