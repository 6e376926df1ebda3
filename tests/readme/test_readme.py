"""What README.md shows is what the commands print."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from grpo_recipes.cli.main import main
from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.expression import releases_that_express, spans_text
from grpo_recipes.resolve.not_expressed import target_of
from grpo_recipes.resolve.pin import field_values
from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.stack.target import parse_target

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


# The commands of "Sharing recipes" are run one after the other by test_sharing.py.
ALONE = re.sub(r"(?ms)^## Sharing recipes$.*?(?=^## )", "", README)
SHOWN = re.findall(r"^\$ grpo-run ((?:diff|doctor) .*)\n((?s:.*?))^```$", ALONE, re.MULTILINE)


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command.split()[0] for command, _ in SHOWN])
def test_a_shown_answer_is_what_the_command_prints(
    command: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == shown.strip()


def test_the_shown_lines_of_a_plan_are_lines_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, shown = re.findall(r"^\$ grpo-run (plan .*)\n((?s:.*?))^```$", ALONE, re.MULTILINE)[0]
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit):
        main(command.split())
    lines = {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
    assert {" ".join(line.split()) for line in shown.splitlines()} <= lines
    assert len(shown.splitlines()) > 3


def test_the_releases_of_the_table_are_those_that_can_express_the_value() -> None:
    rows = re.findall(r"^\| `(\w+): (.*)` \| ([\d.,\s-]+) \|$", README, re.MULTILINE)
    stack, _ = parse_target("trl==1.16.0,transformers==5.23.0,peft==0.21.2,gpus=1xA100-40GB")
    assert stack is not None
    context = resolve(str(ROOT / "recipes/qwen2_lora.yaml"), stack).context
    assert context is not None
    target, values = target_of(context.facts), field_values(context.settings)
    assert target is not None
    assert len(rows) > 10
    for name, text, shown in rows:
        field, value = classified_fields()[name], yaml.safe_load(text)
        package, releases = releases_that_express(field, value, {**values, name: value}, target)
        assert (package, spans_text(releases, package)) == ("trl", shown), name
