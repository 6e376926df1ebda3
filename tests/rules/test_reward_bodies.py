"""What is read off the bodies of rewards is certain: nothing is found in those that are right."""

import ast
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest
from small_recipe import resolved
from support.work import calls

import grpo_recipes
from grpo_recipes.user_files.functions.definitions import Definition, definition
from grpo_recipes.user_files.functions.misread_elements import misread_elements
from grpo_recipes.user_files.functions.reward_body import keywords_read, line_of_first_return
from grpo_recipes.user_files.returned_values import returns_no_list

PACKAGE = Path(grpo_recipes.__file__).parent
SHIPPED = sorted((PACKAGE / "rewards").glob("*.py"))
RECIPES = sorted(PACKAGE.parent.joinpath("recipes").rglob("*.py"))
TRL = sorted(Path(sysconfig.get_path("purelib"), "trl", "rewards").glob("*.py"))


def _rewards() -> list[tuple[Path, str]]:
    """The functions at the top level of these files that take completions."""
    found: list[tuple[Path, str]] = []
    for file in [*SHIPPED, *RECIPES, *TRL]:
        functions = [n for n in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(n, ast.FunctionDef)]
        found += [(file, n.name) for n in functions if "completions" in [a.arg for a in n.args.args]]
    return found


@pytest.mark.parametrize(("file", "name"), [pytest.param(*each, id=f"{each[0].name}:{each[1]}") for each in _rewards()])
def test_nothing_is_found_in_a_reward_that_is_right(file: Path, name: str) -> None:
    reward = definition(str(file), name)
    assert isinstance(reward, Definition)
    assert returns_no_list(reward.node, reward.tree) is None
    assert line_of_first_return(reward.node) is None
    assert keywords_read(reward.node) == ()
    taken_for = [
        misread_elements(reward.node, reward.tree, are_messages=kind, has_turns=False) for kind in (True, False)
    ]
    assert None in taken_for, "right for one kind of prompts at least"
    assert file in [*TRL, *RECIPES] or taken_for == [None, None]


def test_there_are_rewards_to_look_at() -> None:
    packages = {"grpo_recipes", "trl"} if find_spec("trl") else {"grpo_recipes"}
    assert {file.parents[1].name for file, _ in _rewards()} >= packages


def test_a_long_reward_file_is_looked_through_once_for_all_of_its_rewards(tmp_path: Path) -> None:
    """Every rule that reads the whole file asked for it once per reward."""
    reward = "def f{}(completions, **kwargs):\n    return [float(len(text)) for text in completions]\n"
    text = "".join(reward.format(number) for number in range(300))

    def calls_with(rewards: int) -> int:
        file = tmp_path / f"rewards{rewards}.py"
        file.write_text(text, encoding="utf-8")
        lines = ", ".join(f"{{python: {file.name}:f{number}}}" for number in range(rewards))
        return calls(lambda: resolved(tmp_path, f"rewards: [{lines}]"))

    calls_with(2)  # imports the rules
    assert calls_with(12) < 1.5 * calls_with(1)
