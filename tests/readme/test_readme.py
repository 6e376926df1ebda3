"""What README.md shows is what the commands print."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo_recipes.cli.main import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def _blocks(language: str) -> Iterator[str]:
    yield from re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_shown_recipe_is_the_shipped_one() -> None:
    shipped = [line for line in (ROOT / "recipes/qwen2_lora.yaml").read_text().splitlines() if not line.startswith("#")]
    assert "\n".join(shipped).strip() in {block.strip() for block in _blocks("yaml")}


def test_the_shown_findings_are_what_validate_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = next(block for block in _blocks("yaml") if "dapoo" in block)
    shown = next(block for block in _blocks("") if "mistakes.yaml:3:" in block)
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    (tmp_path / "mistakes.yaml").write_text(recipe)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["validate", "mistakes.yaml"])
    assert ended.value.code == 2
    assert capsys.readouterr().out.strip() == shown.split("\n", 1)[1].strip()


def test_every_path_that_is_named_exists() -> None:
    for path in re.findall(r"`((?:recipes|benchmarks|grpo_recipes|schemas|constraints|tests)/[\w/.]*)`", README):
        assert (ROOT / path).exists(), path
