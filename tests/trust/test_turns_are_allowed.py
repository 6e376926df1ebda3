"""Texts that a recipe hands to a tool are asked for as code is: to a tool that runs code they are."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from support.plans import small_plan

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.plan import Plan, Reward
from grpo_recipes.contract.plan_sections import SANDBOX_VARIABLE, ScriptedTurn, Tool
from grpo_recipes.trust.code import code_parts, turn_parts
from grpo_recipes.trust.environment import why_refused
from grpo_recipes.trust.folders import consent

TOOL = Tool("run_python", "python_tool.py:run_python", "/r/python_tool.py", "a" * 64)
HARMLESS, STEALS = {"code": "print(1)"}, {"code": "print(open('/etc/ssh/key').read())"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/.config"))


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "mine/recipe.yaml").write_text("recipe: 1\n")
    return str(tmp_path / "mine/recipe.yaml")


def played(*calls: dict[str, object], tool: Tool = TOOL) -> Plan:
    """A plan whose preflight calls a tool with each of these arguments."""
    return replace(small_plan(), tools=(tool,), scripted_turns=tuple(ScriptedTurn(tool.name, each) for each in calls))


def asked(plan: Plan, recipe: str, *allowed: str) -> str:
    """What a preflight is refused with, "" where it may begin."""
    try:
        consent([*code_parts(plan), *turn_parts(plan)], allowed, [recipe])
    except Refusal as refusal:
        (finding,) = refusal.findings
        return "\n".join([finding.message, *finding.because, str(finding.fix)])
    return ""


def test_a_strangers_turns_are_asked_for_though_their_tool_was_allowed(recipe: str) -> None:
    assert asked(played(), recipe, TOOL.sha256) == ""
    text = asked(played(STEALS), recipe)
    (part,) = turn_parts(played(STEALS))
    assert text.splitlines() == [
        "this recipe's preflight.turns is not allowed yet",
        'preflight.turns run_python({"code": "print(open(\'/etc/ssh/key\').read())"}) has the sha256 ' + part.sha256,
        f"read it, then add --allow-code {part.sha256}; it is remembered for you until the value changes",
    ]
    assert asked(played(STEALS), recipe, part.sha256) == ""
    assert asked(played(STEALS), recipe) == "", "it is remembered"


def test_turns_that_were_edited_after_consent_are_asked_for_again(recipe: str) -> None:
    (part,) = turn_parts(played(HARMLESS))
    assert asked(played(HARMLESS), recipe, TOOL.sha256, part.sha256) == ""
    for edited in (played(STEALS), played(HARMLESS, STEALS), played({"other": HARMLESS["code"]})):
        assert "preflight.turns" in asked(edited, recipe)
    other = replace(TOOL, sha256="b" * 64)
    assert "preflight.turns" in asked(played(HARMLESS, tool=other), recipe, other.sha256), (
        "to another tool they are new"
    )


def test_a_recipe_in_a_folder_of_ones_own_can_be_edited(recipe: str, tmp_path: Path) -> None:
    (tmp_path / "mine/python_tool.py").write_text("x = 1\n")
    digest = hashlib.sha256(b"x = 1\n").hexdigest()
    own = replace(TOOL, path=str(tmp_path / "mine/python_tool.py"), sha256=digest)
    assert asked(played(HARMLESS, tool=own), recipe, "here") == ""
    assert asked(played(STEALS, tool=own), recipe) == ""
    elsewhere = tmp_path / "home/parent.yaml"
    elsewhere.parent.mkdir(exist_ok=True)
    elsewhere.write_text("recipe: 1\n")
    with pytest.raises(Refusal, match=r"preflight\.turns is not allowed yet"):
        consent(turn_parts(played(STEALS, tool=own)), (), [recipe, str(elsewhere)])


@pytest.mark.parametrize("arguments", [{}, {"a": 1, "b": [2.5, True, None]}])
def test_calls_without_texts_are_not_asked_for(arguments: dict[str, object], recipe: str) -> None:
    assert asked(played(arguments), recipe, TOOL.sha256) == ""


@pytest.mark.parametrize("arguments", [{"a": ["x"]}, {"a": {"b": "x"}}, {"a": {"x": 1}}])
def test_texts_are_found_wherever_they_are(arguments: dict[str, object]) -> None:
    assert turn_parts(played(arguments))


def test_what_is_shown_is_short_and_has_no_strange_characters() -> None:
    (part,) = turn_parts(played({"code": "a" * 1000 + "\n\x1b[2J\u202e\u200b" + "steal()"}, *[HARMLESS] * 5))
    assert len(part.what) < 600
    assert part.what.isprintable() and part.what.isascii()
    assert "characters more" in part.what and 'steal()"' in part.what and part.what.endswith("and 2 more")


def test_without_a_sandbox_is_asked_for_with_the_code_that_it_lets_go(recipe: str) -> None:
    plan = replace(played(), sandbox="none")
    assert asked(plan, recipe, TOOL.sha256).startswith(
        "this recipe's launch.sandbox is not allowed yet\n"
        "launch.sandbox none, which gives code that the model writes your rights, has the sha256"
    )
    *_, part = code_parts(plan)
    assert asked(plan, recipe, part.sha256) == ""
    assert code_parts(replace(small_plan(), sandbox="none")) == [], "nothing of it runs code"
    (part,) = code_parts(
        replace(small_plan(), sandbox="none", rewards=(Reward("shipped", "code_tests", "code_tests", 1.0),))
    )
    assert part.kind == "launch.sandbox", "a shipped reward runs code, too"
    assert why_refused(SANDBOX_VARIABLE, "none"), "nor can a recipe say it as a variable"
