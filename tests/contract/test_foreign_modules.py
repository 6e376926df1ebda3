"""A file in PYTHONPATH that has the name of a package: the message names it, and nothing else is blamed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grpo_recipes.contract.host.foreign_modules import foreign_module

RECIPE = str(Path(__file__).parents[2] / "recipes" / "quickstart.yaml")


def test_without_such_a_file_there_is_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert foreign_module(ValueError()) is None
    packages = Path(pytest.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{packages}:")
    assert foreign_module(ValueError()) is None, "installed there"
    (tmp_path / "own_rewards.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_rewards  # noqa: F401

    assert foreign_module(ValueError()) is None, "its name is not one of a package"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("file", "text", "instead"),
    [
        pytest.param("yaml.py", "", "package PyYAML", id="a module"),
        pytest.param("yaml/__init__.py", "import nothing_of_that_name", "package PyYAML", id="a package that fails"),
        pytest.param("difflib.py", "", "module of Python itself", id="of Python"),
    ],
)
def test_the_file_and_the_variable_are_named(file: str, text: str, instead: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    (tmp_path / "recipe.yaml").write_text(Path(RECIPE).read_text().replace("loss_type: dapo", "loss_typ: dapo"))
    words = [sys.executable, "-m", "grpo_recipes.cli.main", "validate", str(tmp_path / "recipe.yaml")]
    paths = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | paths, cwd=Path(RECIPE).parents[1])
    assert done.stderr.splitlines() == [
        f"error: {tmp_path / file} is imported instead of the {instead}",
        f"  = because: the variable PYTHONPATH names {tmp_path}",
        "  = fix: unset PYTHONPATH, or rename that file",
    ]
    assert (done.returncode, done.stdout) == (2, "")
