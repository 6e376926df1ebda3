"""The files beside a reward file that it imports are found without running any of them."""

from pathlib import Path

import pytest
from support.work import growth

from grpo_recipes.user_files.reward_imports import modules_beside, reward_names


def written(folder: Path, **files: str) -> str:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return str(folder / "reward.py")


def test_a_file_alone_imports_nothing_beside_it(tmp_path: Path) -> None:
    assert modules_beside(written(tmp_path, reward="import json, torch\nfrom os import path\n", other="")) == {}


def test_imports_are_followed_wherever_they_stand(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        reward="def f(**_):\n    import words.more\n    return []\n",
        words="from deep import thing\n",
        deep="import reward\n",
        unused="raise SystemExit",
    )
    assert modules_beside(path) == {name: str(tmp_path / name) for name in ("deep.py", "reward.py", "words.py")}


@pytest.mark.parametrize(
    ("condition", "found"), [("TYPE_CHECKING", ["second.py"]), ("__debug__", ["first.py", "second.py"])]
)
def test_imports_that_never_run_are_not_followed(condition: str, found: list[str], tmp_path: Path) -> None:
    text = f"from typing import TYPE_CHECKING\nif {condition}:\n    import first\nelse:\n    import second\n"
    assert list(modules_beside(written(tmp_path, reward=text, first="", second=""))) == found


def test_a_file_beside_does_not_stand_for_pythons_own_library(tmp_path: Path) -> None:
    assert modules_beside(written(tmp_path, reward="import random\n", random="")) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from . import helper", "reward.py:1: a relative import"),
        ("import package", "reward.py imports the package package next to it"),
        ("import broken", "broken.py:1: "),
    ],
)
def test_what_cannot_travel_is_refused_by_its_name(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    with pytest.raises(ValueError, match=said):
        modules_beside(written(tmp_path, reward=text, broken="def"))


def test_a_relative_import_may_fail_where_another_follows(tmp_path: Path) -> None:
    """In a package the first one runs, and in a run folder the second."""
    text = "try:\n    from .helper import f\nexcept ImportError:\n    from helper import f\n"
    path = written(tmp_path, reward=text, helper="def f(**kwargs): ...\n")
    assert list(modules_beside(path)) == ["helper.py"]


def test_rewards_of_one_name_are_numbered_past_names_that_are_taken() -> None:
    rewards = [{"name": name} for name in ("a", "a", "a_2", "a", "a_2", "b")]
    assert reward_names(rewards) == ["a", "a_2", "a_2_2", "a_3", "a_2_3", "b"]


def test_names_of_many_equal_rewards_take_linear_time() -> None:
    """Each looked through all names before it, for each number: 800 took 500 times as long as 100."""
    assert growth(lambda rewards: reward_names([{"name": "a"}] * rewards), 100, 8) < 45
