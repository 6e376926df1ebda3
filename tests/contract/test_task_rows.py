"""Rows of the real reasoning-gym, made in a process of its own."""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_recipes.contract.tasks import COLUMNS, task_rows
from grpo_recipes.contract.tasks.task_rows import NotInstalled, NotMade, as_text, from_text, make_rows

pytestmark = pytest.mark.processes


def spec(*tasks: Any, size: int = 12, seed: int = 1, **more: Any) -> dict[str, Any]:
    """What a plan has in `made`. tasks: names, or (name, weight, config)."""
    whole = [(task, 1, {}) if isinstance(task, str) else task for task in tasks]
    listed = [{"name": name, "weight": weight, "config": config} for name, weight, config in whole]
    return {"tasks": listed, "size": size, "seed": seed, **more}


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the rows without another process, whose import of the package takes longer than all rows."""

    def run(words: list[str], *, input: str, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(stdout=json.dumps(task_rows._answer(json.loads(input))), stderr="", returncode=0)

    monkeypatch.setattr(task_rows, "subprocess", SimpleNamespace(run=run, TimeoutExpired=TimeoutError))
    task_rows._make_in_process.cache_clear()


@pytest.mark.usefixtures("in_this_process")
def test_rows_are_those_of_the_package_with_that_seed() -> None:
    from reasoning_gym import create_dataset

    made = make_rows(spec(("chain_sum", 1, {"min_terms": 3}), size=5, seed=4))
    own = create_dataset("chain_sum", size=5, seed=4, min_terms=3)
    assert [tuple(row) for row in made.rows] == [COLUMNS] * 5
    assert [(row["question"], row["answer"], from_text(row["metadata"])) for row in made.rows] == [
        (own[place]["question"], own[place]["answer"], own[place]["metadata"]) for place in range(5)
    ]
    assert {(row["task"], row["task_config"]) for row in made.rows} == {("chain_sum", '{"min_terms": 3}')}


# These walk through sets of texts, whose order is another one in each process.
WALKING = ("isomorphic_strings", "polynomial_multiplication", "ransom_note", "word_ladder")


def test_another_process_makes_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        task_rows._make_in_process.cache_clear()
        made.append(make_rows(spec(*WALKING, size=24)))
    counted = Counter(row["task"] for row in made[0].rows)
    assert all(counted[task] >= 3 for task in WALKING), counted
    assert made[0].sha256 == made[1].sha256


@pytest.mark.usefixtures("in_this_process")
def test_a_composite_draws_tasks_by_their_weights() -> None:
    made = make_rows(spec(("chain_sum", 3, {}), ("leg_counting", 1, {"max_animals": 3}), size=200))
    counted = Counter(row["task"] for row in made.rows)
    assert 130 < counted["chain_sum"] < 170
    assert counted.total() == 200
    assert {row["task_config"] for row in made.rows if row["task"] == "leg_counting"} == {'{"max_animals": 3}'}
    assert set(made.scorers) == {"chain_sum", "leg_counting"}


@pytest.mark.usefixtures("in_this_process")
def test_held_out_rows_have_no_question_that_is_trained_on() -> None:
    from reasoning_gym import create_dataset

    digits = {"max_terms": 2, "max_digits": 1}
    tasks = ("chain_sum", 1, digits)
    held_out = make_rows(spec(tasks, size=40, not_in=spec(tasks, size=60, seed=1)))
    trained = {row["question"] for row in create_dataset("chain_sum", size=60, seed=1, **digits)}
    assert len(held_out.rows) == 40
    assert held_out.left_out > 0, "of 180 questions some come again"
    assert not {row["question"] for row in held_out.rows} & trained


@pytest.mark.usefixtures("in_this_process")
def test_the_next_seed_is_no_held_out_set_and_ours_is() -> None:
    """The package's row i of seed s is row i - 1 of seed s + 1."""
    from reasoning_gym import create_dataset

    trained, next_seed = (create_dataset("chain_sum", size=2, seed=seed) for seed in (1, 2))
    assert trained[1]["question"] == next_seed[0]["question"]
    assert make_rows(spec("chain_sum", size=40, seed=2, not_in=spec("chain_sum", size=40))).left_out == 0


@pytest.mark.usefixtures("in_this_process")
def test_what_the_package_refuses_is_named() -> None:
    with pytest.raises(NotMade, match="chain_sum: AssertionError: max_terms must be >= min_terms"):
        make_rows(spec(("chain_sum", 1, {"min_terms": 9})))
    with pytest.raises(NotMade, match=r"brand_new: ValueError: .*brand_new.* not registered"):
        make_rows(spec("brand_new"))
    digit = ("base_conversion", 1, {"min_base": 2, "max_base": 3, "min_value": 0, "max_value": 1})
    with pytest.raises(NotMade, match="questions of the training rows"):
        make_rows(spec(digit, size=4, not_in=spec(digit, size=64)))


def test_a_package_that_is_not_there_is_named_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked for in its own process; in this one it would bring matplotlib along."""
    noted = f"import os\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\nraise ImportError('no module')\n"
    (tmp_path / "reasoning_gym.py").write_text(noted)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "reasoning_gym"]:
        monkeypatch.delitem(sys.modules, name)
    task_rows._make_in_process.cache_clear()
    with pytest.raises(NotInstalled, match=r"pip install -e '?/.*\[reasoning-gym\]"):
        make_rows(spec("chain_sum", seed=99))
    assert (tmp_path / "pid").read_text() != str(os.getpid())


@pytest.mark.parametrize(
    "value", [{"a": (1, (2, [3]))}, {1: {"b": (4,)}}, {(0, 1): [None, True, 1.5]}, [], {"x": "é漢"}], ids=str
)
def test_what_a_task_says_of_a_row_comes_back_as_it_was(value: object) -> None:
    assert from_text(as_text(value)) == value
