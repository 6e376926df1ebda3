"""Nothing that a recipe says runs code, writes outside the run folder, hangs or shows a secret, unless it may."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from harms import FILED, TOKEN, Ended, Place, harms, looked_at, made_place, run_apart
from hostile_recipes import ATTEMPTS, BASE, ROWS, TOUCH, Attempt
from small_recipe import STACK

from grpo_recipes.cli.main import main

pytestmark = pytest.mark.hostile

MODEL = Path(__file__).parents[2] / "recipes" / "quickstart" / "model"


def command(*arguments: str) -> Callable[[], int]:
    """The command line as an action that gives its exit code."""

    def action() -> int:
        try:
            main(list(arguments))
        except SystemExit as ended:
            return int(ended.code or 0)
        return 0

    return action


def placed(place: Place, attempt: Attempt) -> Place:
    """The place with the recipe of an attempt and its files."""
    texts = {"base.yaml": BASE.replace("MODEL", str(MODEL)), "rows.jsonl": ROWS, **attempt.files}
    for name, text in texts.items():
        (place.team / name).parent.mkdir(exist_ok=True)
        (place.team / name).write_text(place.filled(text), encoding="utf-8")
    recipe = place.team / "recipe.yaml"
    if isinstance(attempt.recipe, bytes):
        recipe.write_bytes(attempt.recipe)
    else:
        recipe.write_text(place.filled(attempt.recipe), encoding="utf-8")
    if attempt.make is not None:
        attempt.make(place.team)
    return looked_at(place)


def tried(place: Place, attempt: Attempt) -> Ended:
    """Every command that may not run code, on the recipe of an attempt."""
    more = [word for override in attempt.overrides for word in ("--set", place.filled(override))]
    recipe = ["recipe.yaml", "--target", STACK, *more]
    return run_apart(
        place,
        [
            command("validate", *recipe),
            command("validate", *recipe, "--format", "json"),
            command("plan", *recipe),
            command("run", *recipe, "--dry-run", "--out", "runs/tried"),
        ],
    )


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
def test_a_hostile_recipe_does_no_harm(attempt: Attempt, tmp_path: Path) -> None:
    place = placed(made_place(tmp_path), attempt)
    ended = tried(place, attempt)
    run_folder = place.team / "runs" / "tried"
    assert harms(place, ended, run_folder) == [], ended.printed[-3000:]
    assert len(ended.codes) == 4
    if attempt.is_refused is not None:
        assert set(ended.codes) == ({2} if attempt.is_refused else {0}), ended.printed[-3000:]
    if run_folder.exists():
        assert launched_without_python(place, run_folder) == []


def launched_without_python(place: Place, run_folder: Path) -> list[str]:
    """The harm that launch.sh does by itself: its Python is a program that does nothing."""
    environment = {**place.environment(), "PYTHON": "/bin/true"}
    done = subprocess.run(
        ["bash", str(run_folder / "launch.sh")], env=environment, capture_output=True, text=True, timeout=20, cwd="/"
    )
    return harms(place, Ended([done.returncode], done.stdout + done.stderr, 0.0, None))


def test_there_are_enough_of_them_and_each_has_its_name() -> None:
    names = [attempt.name for attempt in ATTEMPTS]
    assert len(names) == len(set(names)) >= 60


def test_the_recipe_that_all_are_laid_over_is_a_good_one(tmp_path: Path) -> None:
    good = Attempt("good", "extends: base.yaml\n")
    place = placed(made_place(tmp_path), good)
    ended = tried(place, good)
    assert set(ended.codes) == {0}, ended.printed
    assert harms(place, ended, place.team / "runs" / "tried") == []


def _execute(place: Place) -> int:
    exec(place.filled(TOUCH))
    return 0


def _write(place: Place) -> int:
    (place.root / "home" / ".bashrc").write_text("evil")
    return 0


def _endless(place: Place) -> int:
    while True:
        pass


def _memory(place: Place) -> int:
    return len(bytearray(8 << 30))


def _say(text: str) -> Callable[[Place], int]:
    return lambda place: print(text) or 0


@pytest.mark.parametrize(
    ("harmful", "said"),
    [
        pytest.param(_execute, "code ran", id="code"),
        pytest.param(_write, "written outside the run folder", id="a file"),
        pytest.param(_endless, "did not end", id="no end"),
        pytest.param(_memory, "crashed", id="memory"),
        pytest.param(_say(TOKEN), "printed a secret", id="a secret of the environment"),
        pytest.param(_say(FILED), "printed a secret", id="a secret of a file"),
        pytest.param(_say("\x1b[2J"), "steered the terminal", id="an escape"),
        pytest.param(_say("\u202e"), "steered the terminal", id="a direction of writing"),
        pytest.param(lambda place: 70, "crashed", id="an internal error"),
    ],
)
def test_each_harm_would_be_seen(harmful: Callable[[Place], int], said: str, tmp_path: Path) -> None:
    place = looked_at(made_place(tmp_path))
    ended = run_apart(place, [lambda: harmful(place)], cpu_s=1)
    assert any(said in harm for harm in harms(place, ended)), ended


def test_a_secret_in_the_run_folder_would_be_seen(tmp_path: Path) -> None:
    place = looked_at(made_place(tmp_path))
    run_folder = place.team / "runs" / "tried"
    run_folder.mkdir(parents=True)
    (run_folder / "plan.json").write_text(TOKEN)
    assert harms(place, Ended([0], "", 0.0, None), run_folder) == ["wrote a secret"]


def test_a_command_in_launch_sh_would_be_seen(tmp_path: Path) -> None:
    place = looked_at(made_place(tmp_path))
    run_folder = place.team / "runs" / "tried"
    run_folder.mkdir(parents=True)
    (run_folder / "launch.sh").write_text(f"export A=$(touch {place.canary})\n")
    assert launched_without_python(place, run_folder) == ["code ran"]
    assert os.path.exists(place.canary)
