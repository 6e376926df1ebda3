"""The hook for pre-commit checks recipes where no training stack is installed."""

from collections.abc import Callable
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
HOOK = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())[0]


def test_the_stack_of_the_hook_is_the_tested_one() -> None:
    assert HOOK["args"] == ["--target", "tested"]


def test_shipped_recipes_pass_and_a_broken_one_does_not(grpo_run: Callable, tmp_path: Path) -> None:
    entry = HOOK["entry"].split()
    assert entry == ["grpo-run", "validate", "--only-recipes"]
    assert HOOK["types"] == ["yaml"] and "files" not in HOOK
    good = [str(path) for path in sorted((ROOT / "recipes").glob("*lora.yaml"))]
    other = tmp_path / "compose.yaml"
    other.write_text("services: {recipe: 1}\n# recipe: 1\nversion: 2\n")
    checked = grpo_run(*entry[1:], *HOOK["args"], *good, str(other))
    assert checked.code == 0 and "compose" not in checked.out
    assert grpo_run(*entry[1:], *HOOK["args"], str(other)).code == 0
    broken = tmp_path / "broken.yaml"
    broken.write_text(Path(good[-1]).read_text().replace("loss_type: grpo", "loss_type: grop"))
    assert grpo_run(*entry[1:], *HOOK["args"], str(broken)).code == 2
