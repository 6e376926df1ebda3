"""Configurations written for a test, taken over."""

from pathlib import Path
from typing import Any

import yaml

from grpo_recipes.takeover.basis.draft import Row
from grpo_recipes.takeover.takeover import Takeover, take_over
from grpo_recipes.yaml.load import load_text

BASE = "model_name_or_path: owner/model\ndataset_name: owner/data\nreward_funcs: [think_format_reward]\n"


def taken(folder: Path, text: str, release: str | None = "trl==1.16.0", **files: str) -> Takeover:
    """A configuration's text, taken over. files: texts of an accelerate or a deepspeed file beside it."""
    config = folder / "config.yaml"
    config.write_text(text, encoding="utf-8")
    beside: dict[str, str] = {}
    for name, content in files.items():
        path = folder / f"{name}.{'json' if name == 'deepspeed' else 'yaml'}"
        path.write_text(content, encoding="utf-8")
        beside[name] = str(path)
    return take_over(str(config), written_for=release, output=str(folder / "recipe.yaml"), **beside)


def recipe_of(one: Takeover) -> dict[str, Any]:
    """The values of the recipe, read by the strict reader; PyYAML reads the same."""
    document, findings = load_text(one.text, "recipe.yaml")
    assert document is not None, findings
    assert [finding for finding in findings if finding.severity == "error"] == [], one.text
    return document.values


def row(one: Takeover, key: str) -> Row:
    """The row of a key that has one."""
    found = [row for row in one.rows if row.key == key]
    assert len(found) == 1, [row.key for row in one.rows]
    return found[0]


def as_yaml(**values: Any) -> str:
    """A configuration with these keys beside those that each needs."""
    return BASE + yaml.safe_dump(values)
