"""A run folder that somebody else made runs nothing that was not allowed."""

from pathlib import Path

import pytest
from render_cases import CASES

from grpo_recipes.render.foreign_files import foreign_files
from grpo_recipes.render.run_folder import write_run_folder

PLAN = CASES["single_cpu"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(write_run_folder(PLAN, str(tmp_path / "run"), ""))


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_folder_as_it_was_written_has_none(case: str, tmp_path: Path) -> None:
    written = write_run_folder(CASES[case], str(tmp_path / "run"), "")
    assert foreign_files(CASES[case], written) == {}


@pytest.mark.parametrize(
    "name", ["launch.sh", "deepspeed.json", "worker/train.py", "worker/grpo_recipes/plan.py", "worker/yaml.py"]
)
def test_a_file_that_was_changed_or_added_is_named(name: str, folder: Path) -> None:
    (folder / name).write_text("import evil")
    assert list(foreign_files(PLAN, str(folder))) == [name]


def test_what_a_run_leaves_and_the_rewards_of_the_plan_are_none_of_them(folder: Path) -> None:
    (folder / "worker" / "user").mkdir(exist_ok=True)
    for name in ("worker/user/mine.py", "run.json", "metrics.jsonl", "train.log"):
        (folder / name).write_text("x")
    assert foreign_files(PLAN, str(folder)) == {}


def test_a_link_and_a_compiled_copy_run_in_place_of_nothing(folder: Path) -> None:
    compiled = folder / "worker" / "grpo_recipes" / "__pycache__"
    compiled.mkdir()
    (compiled / "plan.cpython-311.pyc").write_text("evil")
    start = folder / "worker" / "train.py"
    start.rename(folder / "moved.py")
    start.symlink_to("../moved.py")
    assert list(foreign_files(PLAN, str(folder))) == ["worker/train.py"]
    assert not compiled.exists()
