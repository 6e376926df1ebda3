"""A chat template of many megabytes is not parsed by validate: jinja2 needs a minute for it."""

from pathlib import Path

import pytest
from rule_cases import BASE_RECIPE, declared, laid_over, resolved

from grpo_recipes.rules import chat_template_kwargs_are_the_templates as rule


@pytest.mark.parametrize(("size", "is_parsed"), [(rule.LARGEST_TEMPLATE, True), (rule.LARGEST_TEMPLATE + 1, False)])
def test_a_template_is_parsed_up_to_a_size(
    size: int, is_parsed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[int] = []
    monkeypatch.setattr(
        rule, "template_variables", lambda text, **_: parsed.append(len(text)) or frozenset({"thinking"})
    )
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "chat_template.jinja").write_text("{{ thinking }}".ljust(size))
    changes = {"model": {"model_name_or_path": str(model)}, "generation": {"chat_template_kwargs": {"thinking": True}}}
    resolved(laid_over(BASE_RECIPE, changes), declared(), tmp_path)
    assert parsed == ([size] if is_parsed else [])
