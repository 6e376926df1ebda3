"""TOK001: what the rule refuses is what the training process cannot read; a file that is there is left alone."""

from pathlib import Path

import pytest

from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.rules.chat_template_exists import ID
from grpo_recipes.stack.probe import probe

QUICKSTART = Path(__file__).parents[2] / "recipes" / "quickstart.yaml"


@pytest.mark.parametrize("name", ["there.jinja", "missing.jinja", "."])
def test_the_rule_speaks_exactly_when_the_file_cannot_be_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "there.jinja").write_text("{{ messages }}{% if add_generation_prompt %}A:{% endif %}")
    recipe = tmp_path / "child.yaml"
    recipe.write_text(f"extends: {QUICKSTART}\ntokenizer: {{chat_template_path: ./{name}}}\n")
    spoken = any(finding.rule == ID for finding in resolve(str(recipe), probe()).findings)
    try:
        (tmp_path / name).read_text(encoding="utf-8")  # as the worker reads it
    except OSError:
        assert spoken
    else:
        assert not spoken
