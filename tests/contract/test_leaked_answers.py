"""Which prompts contain their own right answer, and which tasks may."""

import pytest

from grpo_recipes.contract.tasks.leaked_answers import rows_in_the_examples, rows_with_their_answer

ROWS = range(10, 20)
SUMS = [str(2 * n + 3) for n in ROWS]
OPTION = "a long option that is number {} of those that this question has"


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        pytest.param("{n}+{n}+3=", "{sum}", id="a sum"),
        pytest.param("Repeat: word{n}", "word{n}", id="a text to repeat"),
        pytest.param("Use {n} and 3 to make {sum}", "{n} + {n} + 3", id="numbers to use"),
        pytest.param("Is {n} even? yes or no", "no", id="the same answer in every row"),
        pytest.param(f"Q{{n}}? A) {OPTION} B) none", OPTION, id="an option of a choice"),
        pytest.param("Q{n}? 1{sum}", "{sum}", id="the end of a longer number"),
    ],
)
def test_a_task_whose_answer_belongs_in_the_prompt_is_silent(prompt: str, answer: str) -> None:
    made = [text.format(n, n=n, sum=2 * n + 3) for n in ROWS for text in (prompt, answer)]
    assert rows_with_their_answer(made[::2], made[1::2]) == []


@pytest.mark.parametrize(
    "prompt",
    [
        pytest.param("{n}+{n}+3= {sum}", id="behind the question"),
        pytest.param("{sum}", id="alone"),
        pytest.param("{n}+{n}+3=\nAnswer: {sum}.", id="behind a word"),
        pytest.param("{sum}\n\n{n}+{n}+3=", id="before the question"),
    ],
)
def test_an_answer_beside_its_question_is_found(prompt: str) -> None:
    prompts = [prompt.format(n=n, sum=2 * n + 3) for n in ROWS]
    assert rows_with_their_answer(prompts, SUMS) == list(range(10))
    assert rows_with_their_answer(prompts[:3], SUMS[:3]) == [], "too few rows to say"
    half = [text if place % 2 else text.replace(SUMS[place], "") for place, text in enumerate(prompts)]
    assert rows_with_their_answer(half, SUMS) == [], "half of the rows may be chance"


def test_a_whole_solution_is_found_anywhere() -> None:
    solutions = [f"First we double {n}, then we add three, and this makes {2 * n + 3}" for n in ROWS]
    prompts = [f"{n}+{n}+3=\n{text}\nNow you." for n, text in zip(ROWS, solutions, strict=True)]
    assert rows_with_their_answer(prompts, solutions) == list(range(10))


def test_rows_that_every_prompt_shows_as_examples_are_found() -> None:
    shown = "Add the numbers, as in these.\nQ: 12+12+3=\nA: 27\nQ: 90+90+3=\nA: 183\nQ: "
    assert rows_in_the_examples([f"{shown}{n}+{n}+3=\nA:" for n in ROWS], SUMS) == [2]
    assert rows_in_the_examples([f"{shown}{n}+{n}+3=\nA:" for n in ROWS if n != 12], SUMS[:2] + SUMS[3:]) == []
    assert rows_in_the_examples([f"{n}+{n}+3=" for n in ROWS], SUMS) == []
