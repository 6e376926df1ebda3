"""DAT020: TRL shows the model what the template puts into the prompt, so copying it is rewarded."""

import pytest
from library import Library

from grpo_recipes.contract.tasks.leaked_answers import rows_with_their_answer

pytestmark = pytest.mark.stack

COPIES = """
def reward(prompts, completions, solution, **kwargs):
    copied = [prompt.split()[-1] for prompt in prompts]
    raise ValueError(repr([float(copy == wanted) for copy, wanted in zip(copied, solution)][:2]))
"""


@pytest.mark.parametrize(("template", "value", "is_found"), [("{} {}", 1.0, True), ("{}", 0.0, False)])
def test_the_last_word_of_the_prompt_is_right(library: Library, template: str, value: float, is_found: bool) -> None:
    rows = [{"prompt": template.format(f"{n}+{n}=", 2 * n), "solution": str(2 * n)} for n in range(10, 18)]
    answer = library.call("train", arguments={}, rewards=COPIES, rows=rows)
    assert answer.text == repr([value, value])
    prompts, answers = ([row[name] for row in rows] for name in ("prompt", "solution"))
    assert bool(rows_with_their_answer(prompts, answers)) is is_found
