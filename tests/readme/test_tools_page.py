"""docs/tools.md and docs/environments.md show code that is taken, and name what TRL reads."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shown import pages
from support.releases import TRANSFORMERS, TRL, pinned

from grpo_recipes.facts.released.requirements import templates_with_parser

REST = """\
recipe: 1
name: tools
model: {model_name_or_path: owner/model}
dataset: {path: owner/data, prompt: "{{ question }}"}
rewards: [{name: valid_json}]
training: {prompts_per_step: 4, max_steps: 10}
"""
STACK = f"{pinned('python torch transformers trl peft accelerate datasets')},gpus=0"
# Letters of a family's name on the page -> the beginning of its templates' names.
FAMILIES = {
    "Qwen 2.5": "qwen2_5",
    "Qwen 3": "qwen3",
    "Llama 3.1": "llama3_1",
    "3.2": "llama3_2",
    "GLM 4 MoE": "glm4moe",
    "GPT-OSS": "gptoss",
    "Nemotron 3": "nemotron_3",
    "Gemma 4": "gemma4",
    "LFM 2": "lfm2",
}


@pytest.fixture(scope="module")
def page() -> str:
    return pages()["docs/tools.md"]


@pytest.fixture
def recipe(page: str, tmp_path: Path) -> Path:
    return _written(page, tmp_path, "calculator.py", ("tools:", "preflight:"))


@pytest.fixture
def with_environment(tmp_path: Path) -> Path:
    page = pages()["docs/environments.md"]
    return _written(page, tmp_path, "counter.py", ("environment:\n  python: counter.py",))


def _written(page: str, folder: Path, file: str, sections: tuple[str, ...]) -> Path:
    """A recipe with the sections that the page shows, beside the file that it shows for them."""
    written, sources = (re.findall(rf"(?ms)^```{kind}\n(.*?)^```$", page) for kind in ("yaml", "python"))
    (folder / file).write_text(
        next(source for source in sources if ("class Counter" in source) == (file == "counter.py"))
    )
    place = folder / "recipe.yaml"
    place.write_text(REST + "".join(text for text in written if text.startswith(sections)))
    return place


def test_the_shown_tool_is_taken_and_planned(recipe: Path, grpo_run: Callable) -> None:
    answer = grpo_run("validate", str(recipe), "--target", STACK)
    # Whether TRL reads the tool calls of a hub model needs its chat template, which is not here.
    assert (answer.code, "1 check not made" in answer.out + answer.err) == (0, True), answer
    plan = grpo_run("plan", str(recipe), "--target", STACK)
    assert re.search(
        r"tools \(what the model can call\)\n  calculate  calculator.py:calculate  5 s per call  \w{12}\n", plan.out
    )
    assert re.search(r"GRPOConfig.max_tool_calling_iterations +3 ", plan.out)


def test_the_shown_environment_is_taken_and_planned(with_environment: Path, grpo_run: Callable) -> None:
    answer = grpo_run("validate", str(with_environment), "--target", STACK)
    # Whether TRL reads the tool calls of a hub model needs its chat template, which is not here.
    assert (answer.code, "1 check not made" in answer.out + answer.err) == (0, True), answer
    names: dict[str, Any] = {}
    exec(with_environment.with_name("counter.py").read_text(), names)
    counter = names["Counter"](start=2)
    assert counter.reset(prompt="") == " The counter shows 2."
    assert (counter.add(3), counter.add(5), counter.get_reward()) == (5, 10, 1.0)


def test_the_shown_tool_computes(recipe: Path) -> None:
    names: dict[str, Callable[..., str]] = {}
    exec(recipe.with_name("calculator.py").read_text(), names)
    assert [names["calculate"](7, 2, sign) for sign in "+-*/"] == ["9", "5", "14", "3.5"]
    assert names["calculate"](1, 0, "/") == "nan"


def test_the_scripted_turns_are_of_the_shown_tool(recipe: Path, grpo_run: Callable) -> None:
    recipe.write_text(recipe.read_text().replace("{tool: calculate", "{tool: calculator"))
    answer = grpo_run("validate", str(recipe), "--target", STACK)
    assert answer.code != 0
    assert "TOL013" in answer.out + answer.err
    assert "write it as calculate" in answer.out + answer.err


def test_a_limit_is_refused_where_the_release_has_none(recipe: Path, grpo_run: Callable) -> None:
    older = STACK.replace(pinned("trl"), "trl==0.26.2").replace("gpus", "jmespath==1.0.1,gpus")
    answer = grpo_run("validate", str(recipe), "--target", older)
    assert answer.code != 0
    assert "max_tool_calling_iterations" in answer.out + answer.err
    recipe.write_text(recipe.read_text().replace("generation:\n  max_tool_calling_iterations: 3\n", ""))
    assert "max_tool" not in grpo_run("validate", str(recipe), "--target", older).out


def test_the_page_names_every_family_whose_calls_are_read(page: str) -> None:
    names = templates_with_parser(TRL, TRANSFORMERS).values()
    assert [name for name in names if not name.startswith(tuple(FAMILIES.values()))] == []
    assert [family for family in FAMILIES if family not in page] == []
