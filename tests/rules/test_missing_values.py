"""A rule that lacks a value says so, and keeps what it found before."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rule_cases import BASE_RECIPE, declared, laid_over, resolved

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.resolve import engine
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules.catalog import Rule

EPOCHS = {"training": {"max_steps": None, "num_train_epochs": 2}}


def _check(context: Context) -> Iterator[Finding]:
    yield context.finding("the first finding", "training.prompts_per_step", "it needs no steps", severity="warning")
    context.whole("GRPOConfig.max_steps")


RULE = Rule("TST001", "a_test", "Steps are known.", "Steps are known.", {}, (), (), None, _check)


@pytest.mark.parametrize("changes", [{}, EPOCHS], ids=["steps", "no steps"])
def test_a_rule_that_lacks_a_value_is_not_checked(
    changes: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = resolved(laid_over(BASE_RECIPE, changes), declared(), tmp_path).context
    assert context is not None
    monkeypatch.setattr(engine, "rules", lambda: (RULE,))
    found = [(one.severity, one.key) for one in engine.check(context)]
    lacking = [("not-checked", "training.max_steps")] if changes else []
    assert found == [("warning", "training.prompts_per_step"), *lacking]


def test_a_value_that_follows_from_a_refused_one_is_not_reported(tmp_path: Path) -> None:
    recipe = laid_over(BASE_RECIPE, {"training": {"prompts_per_step": 3}, "launch": {"num_processes": 5}})
    found = resolved(recipe, declared(), tmp_path).findings
    assert [one.rule for one in found if one.severity == "error"] == ["BAT001"]
    assert [one.message for one in found if one.severity == "not-checked"] == []


def test_one_key_gets_no_two_contradicting_findings(tmp_path: Path) -> None:
    recipe = laid_over(BASE_RECIPE, {"generation": {"use_vllm": False, "vllm_max_model_length": 4608}})
    found = resolved(recipe, declared({"trl": "0.17.0", "transformers": "4.52.4", "vllm": None}), tmp_path).findings
    assert [(one.rule, one.severity) for one in found if one.key == "generation.vllm_max_model_length"] == [
        ("FCT004", "error")
    ]
