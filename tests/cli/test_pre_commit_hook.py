"""The hook for pre-commit checks recipes where no training stack is installed."""

import re
from collections.abc import Callable
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
HOOK = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())[0]


def test_the_stack_of_the_hook_is_the_tested_one() -> None:
    assert HOOK["args"] == ["--target", "tested"]


def test_shipped_recipes_pass_and_a_broken_one_does_not(grpo_run: Callable, tmp_path: Path) -> None:
    entry = HOOK["entry"].split()
    assert entry == ["grpo-run", "validate"]
    good = [str(path) for path in sorted((ROOT / "recipes").glob("*lora.yaml"))]
    assert all(re.search(HOOK["files"], str(Path(path).relative_to(ROOT))) for path in good)
    assert grpo_run("validate", *HOOK["args"], *good).code == 0
    broken = tmp_path / "broken.yaml"
    broken.write_text(Path(good[-1]).read_text().replace("loss_type: grpo", "loss_type: grop"))
    assert grpo_run("validate", *HOOK["args"], str(broken)).code == 2
