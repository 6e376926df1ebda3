"""An endpoint that a recipe sends text to is asked for as code is, with the variable whose value it gets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.plans import small_plan

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.plan import Plan, Reward
from grpo_recipes.report.plan_text import plan_text
from grpo_recipes.trust.code import code_parts
from grpo_recipes.trust.folders import consent


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/.config"))


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "mine/recipe.yaml").write_text("recipe: 1\n")
    return str(tmp_path / "mine/recipe.yaml")


def judged(url: str = "https://judge.example.com/v1", **changes: Any) -> Plan:
    """A plan with a judge."""
    how = {"model": "small", "prompt": "{{ question }}\n{{ completion }}", "key_variable": "JUDGE_API_KEY", **changes}
    return replace(small_plan(), rewards=(Reward("judge", "judge", url, 1.0, how),))


def asked(plan: Plan, recipe: str, *allowed: str) -> str:
    """What a run is refused with, "" where it may begin."""
    try:
        consent(code_parts(plan), allowed, [recipe] if recipe else [])
    except Refusal as refusal:
        (finding,) = refusal.findings
        return "\n".join([finding.message, *finding.because, str(finding.fix)])
    return ""


def test_an_endpoint_is_asked_for_with_what_it_gets(recipe: str) -> None:
    (part,) = code_parts(judged())
    assert asked(judged(), recipe).splitlines() == [
        "this recipe's rewards.judge is not allowed yet",
        "rewards.judge https://judge.example.com/v1, which gets prompts, completions and columns of the rows, and the"
        f" value of JUDGE_API_KEY, has the sha256 {part.sha256}",
        f"read it, then add --allow-code {part.sha256}; it is remembered for you until the value changes",
    ]
    assert asked(judged(), recipe, part.sha256) == ""
    assert asked(judged(prompt="{{ completion }}", model="large"), recipe) == "", "the same endpoint and key"


def test_a_different_endpoint_or_key_is_asked_for_again(recipe: str) -> None:
    (part,) = code_parts(judged())
    assert asked(judged(), recipe, part.sha256) == ""
    others = (
        judged("https://judge.example.com.evil.org/v1"),
        judged(key_variable="HF_TOKEN"),
        judged(key_variable=None),
    )
    for other in others:
        assert "rewards.judge" in asked(other, recipe)
    assert "value of HF_TOKEN" in asked(others[1], recipe)
    assert "gets prompts, completions and columns of the rows," in asked(others[2], recipe)


def test_a_folder_of_ones_own_allows_its_judges_and_its_runs_go_on(recipe: str, tmp_path: Path) -> None:
    assert asked(judged(), recipe, "here") == ""
    assert asked(judged("https://other.example.com/v1"), recipe) == ""
    assert asked(judged(), "") == "", "a run that goes on"
    (tmp_path / "other").mkdir(mode=0o700)
    (tmp_path / "other/recipe.yaml").write_text("recipe: 1\n")
    assert "rewards.judge" in asked(judged(), str(tmp_path / "other/recipe.yaml"))


def test_the_plan_says_which_host_gets_which_text() -> None:
    (line,) = [line for line in plan_text(judged()).splitlines() if "judge.example.com" in line]
    assert line.split("  ")[1:] == [
        "judge",
        "small",
        "https://judge.example.com/v1",
        "key of JUDGE_API_KEY",
        "gets {{ question }} {{ completion }}",
    ]
