"""A folder that was allowed with `--allow-code here` allows its owner's code in it, and nothing that others put in."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from harms import Place, harms, looked_at, made_place, run_apart
from hostile_recipes import REWARD, TOUCH, Attempt, over
from small_recipe import STACK
from test_hostile_recipes import command, placed
from test_hostile_runs import run

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.trust.folders import allow_folders, allowed_folders

pytestmark = pytest.mark.hostile

EVIL = TOUCH + REWARD
HARMLESS = "# mine\n" + REWARD
TRAINS = over("rewards: [{python: r.py:f}]\ntraining: {max_steps: 1}\n")
Change = Callable[[Place], object]


def folder_list(place: Place) -> Path:
    return place.root / "home/.config/grpo-run/folders.json"


def allowed_place(root: Path) -> Place:
    """A place whose recipe's folder its user has allowed, with a reward that does no harm."""
    place = made_place(root)
    placed(place, Attempt("own", TRAINS, {"r.py": HARMLESS}))
    for path in (root, *root.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o022)
    assert run_apart(place, [lambda: allow_folders(["recipe.yaml"]) or 0]).codes == [0]
    return place


def _evil(path: Path, place: Place, text: str = EVIL) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(place.filled(text))
    return path


def _named(reward: str, make: Change = lambda place: None) -> Change:
    """The recipe of the folder names other code."""

    def change(place: Place) -> None:
        make(place)
        (place.team / "recipe.yaml").write_text(over(f"rewards: [{{python: {place.filled(reward)}:f}}]"))

    return change


def _own_evil(change: Change) -> Change:
    """The code in the folder would be seen, and something is not as it was allowed."""

    def changed(place: Place) -> None:
        _evil(place.team / "r.py", place)
        change(place)

    return changed


def _run_folder(folder: Path) -> None:
    for name in ("plan.json", "launch.sh"):
        (folder / name).write_text("{}")


def _received_run(place: Place) -> None:
    folder = place.team / "runs" / "one"
    _evil(folder / "worker" / "user" / "r.py", place)
    _run_folder(folder)


def _linked_file(place: Place) -> None:
    (place.team / "r.py").unlink()
    (place.team / "r.py").symlink_to(_evil(place.root / "outside" / "r.py", place))


def _linked_import(place: Place) -> None:
    (place.team / "r.py").write_text("import h\n" + HARMLESS)
    (place.team / "h.py").symlink_to(_evil(place.root / "outside" / "h.py", place))


def _linked_folder(place: Place) -> None:
    _evil(place.root / "outside" / "r.py", place)
    (place.team / "sub").symlink_to("../outside")


def _linked_recipe(place: Place) -> None:
    received = place.root / "outside" / "recipe.yaml"
    received.write_text((place.team / "recipe.yaml").read_text().replace("base.yaml", f"{place.team}/base.yaml"))
    (place.team / "recipe.yaml").unlink()
    (place.team / "recipe.yaml").symlink_to(received)


def _parent_elsewhere(place: Place) -> None:
    _evil(place.root / "outside" / "r.py", place)
    base = (place.team / "base.yaml").read_text().replace("name: exact_match", "python: r.py:f")
    (place.root / "outside" / "base.yaml").write_text(base.replace("rows.jsonl", f"{place.team}/rows.jsonl"))
    (place.team / "recipe.yaml").write_text("extends: ../outside/base.yaml\n")


def _parent_names_code_of_the_folder(place: Place) -> None:
    _parent_elsewhere(place)
    base = place.root / "outside" / "base.yaml"
    base.write_text(base.read_text().replace("r.py:f", f"{place.team}/r.py:f"))


def _listed(change: Callable[[Path], object]) -> Change:
    return _own_evil(lambda place: change(folder_list(place)))


def _entry(**values: object) -> Change:
    def change(path: Path) -> None:
        rows = json.loads(path.read_text())
        path.write_text(json.dumps({"folders": [{**rows["folders"][0], **values}]}))

    return _listed(change)


def _given_away(path: str) -> Change:
    def change(place: Place) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root gives files away")
        os.chown(place.root / path, 12345, -1)

    return _own_evil(change)


def _mode(path: str, mode: int) -> Change:
    return _own_evil(lambda place: (place.root / path).chmod(mode))


ATTEMPTS: dict[str, Change] = {
    "a link to a file outside": _linked_file,
    "an import through a link": _linked_import,
    "a folder that is a link": _named("sub/r.py", _linked_folder),
    "a path that leads out": _named("../outside/r.py", lambda place: _evil(place.root / "outside/r.py", place)),
    "a path from the root": _named("OUTSIDE/r.py", lambda place: _evil(place.root / "outside/r.py", place)),
    "a run folder that was received into it": _named("runs/one/worker/user/r.py", _received_run),
    "a folder that the group writes": _mode("team", 0o775),
    "a folder that everybody writes": _mode("team", 0o777),
    "a sticky folder that everybody writes": _mode("team", 0o1777),
    "a folder of another user": _given_away("team"),
    "a run folder now": _own_evil(lambda place: _run_folder(place.team)),
    "within a run folder now": _own_evil(lambda place: _run_folder(place.root)),
    "a recipe that is a link to a received one": _own_evil(_linked_recipe),
    "a parent of the recipe with code elsewhere": _parent_elsewhere,
    "a parent elsewhere that names code of the folder": _own_evil(_parent_names_code_of_the_folder),
    "a list that is a pipe": _listed(lambda path: (path.unlink(), os.mkfifo(path))),
    "a list that is cut off": _listed(lambda path: path.write_text(path.read_text()[:40])),
    "a list without end": _listed(lambda path: path.write_text("[" * 200_000)),
    "a list of a list": _listed(lambda path: path.write_text('{"folders": {"a": 1}}')),
    "an entry without a day": _entry(since=None),
    "an entry of a relative path": _entry(path="team"),
    "an entry of the folder above": lambda place: _entry(path=str(place.root))(place),
}


@pytest.mark.parametrize(
    ("attempt", "name"), [(attempt, ("run", "preflight")[place % 2]) for place, attempt in enumerate(ATTEMPTS)]
)
def test_code_that_is_not_the_owners_is_asked_for(name: str, attempt: str, tmp_path: Path) -> None:
    place = allowed_place(tmp_path)
    ATTEMPTS[attempt](place)
    before = looked_at(place)
    ended = run_apart(place, [command(name, "recipe.yaml")])
    assert ended.codes == [2], ended.printed
    assert "not allowed to run yet" in ended.printed or "list of allowed folders cannot be read" in ended.printed
    assert harms(before, ended) == []


OTHER_CODE = {
    "an environment variable": "launch: {environment: {MY_MODE: fast}}",
    "the model's code": "model: {trust_remote_code: true, model_name_or_path: ./model}",
    "a kernel of the hub": "model: {attn_implementation: someone/kernel}",
}


@pytest.mark.parametrize("kind", OTHER_CODE)
def test_a_folder_allows_no_other_kind_of_code(kind: str, tmp_path: Path) -> None:
    place = allowed_place(tmp_path)
    model = place.team / "model"
    shutil.copytree(Path(__file__).parents[2] / "recipes/quickstart/model", model)
    (model / "configuration_evil.py").write_text(place.filled(TOUCH))
    (place.team / "recipe.yaml").write_text(f"{TRAINS}{OTHER_CODE[kind]}\n")
    before = looked_at(place)
    ended = run_apart(place, [command("run", "recipe.yaml"), command("run", "recipe.yaml", "--allow-code", "here")])
    assert ended.codes == [2, 2], ended.printed
    assert "python reward" not in ended.printed
    assert len(re.findall("not allowed (?:to run )?yet", ended.printed)) == 2
    assert harms(before, ended) == []


def test_a_recipe_elsewhere_does_not_use_the_code_of_the_folder(tmp_path: Path) -> None:
    place = allowed_place(tmp_path)
    _evil(place.team / "r.py", place)
    text = (place.team / "recipe.yaml").read_text().replace("base.yaml", "../team/base.yaml")
    (place.root / "outside" / "recipe.yaml").write_text(text.replace("r.py:f", "../team/r.py:f"))
    before = looked_at(place)
    ended = run_apart(place, [command("run", "../outside/recipe.yaml")])
    assert ended.codes == [2], ended.printed
    assert harms(before, ended) == []


def test_a_received_run_folder_is_not_taken_for_the_recipe_that_it_names(tmp_path: Path) -> None:
    place = allowed_place(tmp_path)
    _evil(place.team / "r.py", place)
    dry = run_apart(place, [command("run", "recipe.yaml", "--target", STACK, "--dry-run", "--out", "runs/one")])
    assert dry.codes == [0], dry.printed
    before = looked_at(place)
    for words in (["runs/one"], ["runs/one", "--allow-code", "here"], ["runs/one", "--resume", "--allow-code", "here"]):
        ended = run_apart(place, [command("run", *words, "--accept-drift")])
        assert ended.codes == [2], ended.printed
        assert harms(before, ended) == []


NOT_OWN: dict[str, tuple[Change, str]] = {
    "the home": (lambda place: os.environ.update(HOME=str(place.team)), "all of this user's files"),
    "what holds the home": (lambda place: os.environ.update(HOME=str(place.team / "me")), "all of this user's files"),
    "a run folder": (lambda place: _run_folder(place.team), "a run folder"),
    "in a run folder": (lambda place: _run_folder(place.root), "a run folder"),
    "written by the group": (lambda place: place.team.chmod(0o770), "can be written by others"),
}


@pytest.mark.parametrize("case", NOT_OWN)
def test_a_folder_that_is_not_ones_own_cannot_be_allowed(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = made_place(tmp_path)
    placed(place, Attempt("own", TRAINS, {"r.py": HARMLESS}))
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o022)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/.config"))
    change, because = NOT_OWN[case]
    change(place)
    with pytest.raises(Refusal, match=because):
        allow_folders([str(place.team / "recipe.yaml")])
    assert allowed_folders() == []


def test_the_list_is_for_its_owner_alone(tmp_path: Path) -> None:
    place = allowed_place(tmp_path)
    assert folder_list(place).stat().st_mode & 0o777 == 0o600


@pytest.mark.stack
def test_the_owners_code_runs_after_each_edit_and_is_told(tmp_path: Path, warm_python: Path) -> None:
    """The trial in which the canary is seen."""
    place = allowed_place(tmp_path)
    _evil(place.team / "r.py", place)
    ended = run(place, "preflight", "recipe.yaml", python=str(warm_python / "python"))
    assert f"code in {place.team} allowed since " in ended.printed
    assert f"forget with grpo-run allowed --forget {place.team}" in ended.printed
    assert place.canary.exists()
