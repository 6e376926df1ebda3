"""The example of each section in docs/recipe-reference.md is a correct recipe beside the least of the others."""

from pathlib import Path
from typing import Any

import pytest
import recipe_reference
import yaml

from grpo_recipes.api import validate
from grpo_recipes.schemas.models import sections

EXAMPLES = recipe_reference.section_examples()
FILES = {
    "rewards.py": "def nearness(completions, solution, **kwargs):\n    return [0.0 for _ in completions]\n",
    "calculator.py": "def calculate(a: float, b: float) -> str:\n"
    '    """Adds two numbers.\n\n    Args:\n        a: the first one.\n        b: the second one.\n    """\n'
    "    return str(a + b)\n",
    "game.py": "class Game:\n    def __init__(self, start: int = 0):\n        self.start = start\n\n"
    "    def reset(self, **kwargs) -> str:\n        return 'begin'\n\n"
    '    def move(self, by: int) -> str:\n        """Moves.\n\n        Args:\n            by: how far.\n        """\n'
    "        return str(by)\n",
    "mine.py": "def play(prompts, trainer):\n    return {}\n",
    "template.jinja": "{% for message in messages %}{{ message.content }}{% endfor %}",
    "easy.jsonl": '{"question": "1+1=", "answer": "2"}\n' * 64,
    "hard.jsonl": '{"question": "17+25=", "answer": "42"}\n' * 64,
}
BASE: dict[str, Any] = {
    "recipe": 1,
    "name": "example",
    "model": {"model_name_or_path": "Qwen/Qwen2.5-1.5B-Instruct"},
    "dataset": {"path": "openai/gsm8k", "name": "main", "prompt": "{{ question }}", "columns": {"solution": "1"}},
    "rewards": [{"name": "accuracy"}],
    "training": {"prompts_per_step": 16, "max_steps": 100},
}


def test_each_section_has_an_example() -> None:
    named = {name for name in sections() if name and "." not in name}
    assert set(EXAMPLES) == {*named, "trl"}


@pytest.mark.parametrize("section", EXAMPLES)
@pytest.mark.slow
def test_an_example_has_no_errors(section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    example = yaml.safe_load(EXAMPLES[section])
    assert section in example
    recipe = {**BASE, **example}
    if "datasets" in example:
        del recipe["dataset"]
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    found = validate("recipe.yaml", target="tested,vllm==0.30.0,gpus=8xA100-80GB")
    assert [f"{one.rule}: {one.message}" for one in found if one.severity == "error"] == []
