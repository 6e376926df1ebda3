"""Each answer as JSON, also the one that a recipe is refused: stdout is one document and nothing else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

ROOT = Path(__file__).parents[2]
RECIPE = str(ROOT / "recipes" / "quickstart.yaml")
WRONG = ("--set", "grpo.beta=much")


def _findings(text: str) -> Any:
    document = json.loads(text)
    schema = json.loads((ROOT / "schemas" / "findings.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(document)
    return [(finding["rule"], finding["severity"]) for finding in document["findings"]]


@pytest.mark.parametrize(
    "command",
    [["validate"], ["plan"], ["run"], ["run", "--dry-run"], ["run", "--validate-only"], ["preflight"]],
    ids=" ".join,
)
def test_a_refused_recipe_is_its_findings(
    command: list[str], tmp_path: Path, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = grpo_run(*command, RECIPE, *WRONG, "--json")
    assert answer.code == 2
    assert ("SCH002", "error") in _findings(answer.out)
    assert "because" not in answer.err
    assert list(tmp_path.iterdir()) == []


def test_validate_has_one_form_by_two_names(grpo_run: Callable) -> None:
    assert grpo_run("validate", RECIPE, "--json").out == grpo_run("validate", RECIPE, "--format", "json").out
    assert grpo_run("validate", RECIPE, "--json", "--fix").code == 2


def test_a_dry_run_says_its_folder(tmp_path: Path, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = grpo_run(RECIPE, "--dry-run", "--json", "--out", "mine")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out) == {"folder": str(tmp_path / "mine")}
    assert (tmp_path / "mine" / "launch.sh").is_file()
