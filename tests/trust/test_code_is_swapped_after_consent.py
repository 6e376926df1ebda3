"""What was allowed is what runs: code that is another one by then starts nothing and is copied nowhere."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo_recipes.trust import folders

HARMLESS = "def brief(completions, **kwargs):\n    return [0.0 for _ in completions]\n"
EVIL = "import os\nos.mkdir('harm')\n" + HARMLESS


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "mine.py").write_text(f"from helper import FACTOR\n{HARMLESS}")
    (tmp_path / "helper.py").write_text("FACTOR = 1\n")
    quickstart = Path(__file__).parents[2] / "recipes" / "quickstart.yaml"
    rewards = {"rewards": [{"python": "./mine.py:brief"}]}
    (tmp_path / "recipe.yaml").write_text(json.dumps({"recipe": 1, "extends": str(quickstart), **rewards}))
    return str(tmp_path / "recipe.yaml")


def written_over(file: Path) -> None:
    file.write_text(EVIL)


def renamed_into_place(file: Path) -> None:
    """As an editor does; the old file is another inode."""
    new = file.with_suffix(".new")
    new.write_text(EVIL)
    os.replace(new, file)


def turned_into_a_link(file: Path) -> None:
    target = file.with_name("elsewhere.txt")
    target.write_text(EVIL)
    file.unlink()
    file.symlink_to(target)


@pytest.mark.parametrize("swap", [written_over, renamed_into_place, turned_into_a_link])
@pytest.mark.parametrize("name", ["mine.py", "helper.py"])
def test_code_that_is_swapped_between_consent_and_run_is_not_taken(
    name: str,
    swap: Callable[[Path], None],
    recipe: str,
    tmp_path: Path,
    grpo_run: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, real = tmp_path / "out", folders.consent

    def asked(*given: Any) -> list[str]:
        lines = real(*given)
        swap(tmp_path / name)
        return lines

    refused = grpo_run(recipe, "--out", str(out))
    digests = [word for word in refused.err.split() if len(word) == 64]
    assert (refused.code, len(digests) >= 2) == (2, True), refused.err
    allowed = [word for digest in dict.fromkeys(digests) for word in ("--allow-code", digest)]
    monkeypatch.setattr(folders, "consent", asked)
    answer = grpo_run(recipe, "--out", str(out), *allowed)
    assert answer.code == 2, answer.out + answer.err
    assert f"{name}: the reward file changed since the plan was made" in answer.err
    assert not out.exists()
    assert not list(tmp_path.rglob("harm"))
