"""The reward reasoning_gym against the package's own scorers."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gym_table import read_installed

from grpo_recipes.contract.tasks.task_rows import as_text, dataset_of
from grpo_recipes.facts.released.history import config_keys, gym_release, task_names
from grpo_recipes.rewards import reasoning_gym as module
from grpo_recipes.rewards.reasoning_gym import reasoning_gym

pytestmark = pytest.mark.slow  # the package takes two seconds to import


@pytest.fixture(autouse=True, scope="module")
def _fonts_are_listed() -> None:
    """matplotlib, which the package imports, runs `fc-list` where this user has never imported it."""
    import reasoning_gym  # noqa: F401


# Several answers are right in these, and the package has none for them.
WITHOUT_ANSWER = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
SLOW = {"knight_swap", "sokoban", "futoshiki"}
# Its scorer asks whether there is an answer at all.
TAKES_NOISE = {"game_of_life_halting"}


def rows_of(task: str, count: int = 2, seed: int = 3) -> dict[str, list[Any]]:
    """The columns of some rows."""
    dataset = dataset_of([{"name": task, "weight": 1, "config": {}}], count, seed)
    entries = [dataset[place] for place in range(count)]
    return {
        "question": [entry["question"] for entry in entries],
        "answer": [entry["answer"] for entry in entries],
        "task": [task] * count,
        "task_config": ["{}"] * count,
        "metadata": [as_text(entry["metadata"]) for entry in entries],
    }


@pytest.mark.parametrize("task", sorted(set(task_names()) - WITHOUT_ANSWER - SLOW))
def test_the_right_answer_gets_one_and_nothing_gets_less(task: str) -> None:
    rows = rows_of(task)
    assert reasoning_gym(rows["answer"], **rows) == [1.0, 1.0]
    most = 1.0 if task in TAKES_NOISE else 0.99
    assert all(0.0 <= score <= most for score in reasoning_gym(["", "lorem ipsum"], **rows))


@pytest.mark.parametrize("task", sorted(WITHOUT_ANSWER))
def test_a_task_without_an_answer_scores_what_is_said(task: str) -> None:
    rows = rows_of(task, 1)
    assert rows["answer"] == [None]
    assert all(0.0 <= score < 1.0 for score in reasoning_gym(["lorem ipsum"], **rows))


CODE = (
    "__import__('pathlib').Path({file!r}).touch()",
    "[__import__('pathlib').Path({file!r}).touch()]",
    "open({file!r}, 'w')",
    "exec(bytes({bytes}))",
    "ｅｘｅｃ(bytes({bytes}))",
    "(lambda f: f(bytes({bytes})))(exec)",
)


@pytest.mark.parametrize("task", sorted(set(task_names()) - SLOW))
def test_no_scorer_runs_what_a_model_wrote(task: str, tmp_path: Path) -> None:
    """Nine scorers of the package pass an answer to eval, or to sympy, which evaluates it with Python's functions."""
    file = tmp_path / "touched"
    rows = rows_of(task, 1)
    code = list(f"open({str(file)!r}, 'w')".encode())
    for text in CODE:
        (score,) = reasoning_gym([text.format(file=str(file), bytes=code)], **rows)
        assert not file.exists(), text
        assert score < 1.0 or task in TAKES_NOISE


@pytest.mark.parametrize(
    ("task", "score"),
    [("binary_matrix", 0.1), ("n_queens", 0.5), ("spiral_matrix", 0.1), ("string_insertion", 0.1)],
)
def test_an_answer_as_a_list_of_python_gets_what_the_package_gives_it(task: str, score: float) -> None:
    rows = rows_of(task, 1)
    right = rows["answer"][0]
    cells = [line.split() for line in right.split("\n")]
    listed = list(right) if task == "string_insertion" else cells[0] if task == "spiral_matrix" else cells
    said = str(listed) if task != "binary_matrix" else str([[int(cell) for cell in row] for row in cells])
    assert reasoning_gym([said], **rows) == [score]


@pytest.mark.parametrize(
    "text",
    [
        "94*4 - 61 - 6",
        "x**2/2 + sin(x)*exp(-x) + C",
        "abs(-3)*max(1, 2)",
        "1.5 + 2.",
        "log(u) + sqrt(pi)*erf(X_1)",
        "√2",
    ],
)
def test_a_formula_is_no_code(text: str) -> None:
    module._refuse_code(text)


@pytest.mark.parametrize("text", ["sympify(srepr(x)[6])", "S(latex(x))", "x.__class__", "(x) .args", "'a'", "eval(x)"])
def test_what_sympy_could_read_as_code_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it is code rather than a formula"):
        module._refuse_code(text)


def test_a_score_is_the_tasks_own_number() -> None:
    rows = rows_of("chain_sum", 1)
    wanted = dataset_of([{"name": "chain_sum", "weight": 1, "config": {}}], 1, 3)
    near = f"it is {rows['answer'][0]}"
    assert 0.0 < reasoning_gym([near], **rows)[0] < 1.0
    assert reasoning_gym([near], **rows) == [wanted.score_answer(near, wanted[0])]


def test_an_answer_that_holds_the_right_one_gets_nothing_if_none_is_partial() -> None:
    rows = rows_of("chain_sum", 1)
    right = rows["answer"][0]
    twice = [f"{right}{right}", right]
    rows = {name: values * 2 for name, values in rows.items()}
    assert reasoning_gym(twice, **rows) == [0.5, 1.0]
    assert reasoning_gym(twice, partial=False, **rows) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("answer_in", "said", "score"),
    [
        ("completion", "{}\n", 1.0),
        ("last_line", "so much\n {} \n", 1.0),
        ("last_line", "{}\nso much", 0.0),
        ("answer_tag", "<answer>7</answer> no <answer>\n{}\n</answer>.", 1.0),
        ("answer_tag", "{}", 0.0),
    ],
)
def test_where_the_answer_is_taken_from(answer_in: str, said: str, score: float) -> None:
    rows = rows_of("leg_counting", 1)
    text = said.format(rows["answer"][0])
    assert reasoning_gym([text], answer_in=answer_in, **rows) == [score]
    conversation = [{"role": "assistant", "content": text}]
    assert reasoning_gym([conversation], answer_in=answer_in, **rows) == [score]


def test_a_text_is_no_answer_to_whether_half_an_answer_counts() -> None:
    with pytest.raises(ValueError, match="partial 'false' is neither true nor false"):
        reasoning_gym(["1"], partial="false", **rows_of("leg_counting", 1))


def test_another_word_for_where_ends_the_run() -> None:
    with pytest.raises(ValueError, match="answer_in 'box' is not one of completion, last_line, answer_tag"):
        reasoning_gym(["1"], answer_in="box", **rows_of("leg_counting", 1))


def test_an_answer_that_the_scorer_cannot_take_is_said_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    rows, logged = rows_of("prime_factorization"), {}
    module._said.clear()
    found = reasoning_gym(["two x three", rows["answer"][1]], log_metric=logged.__setitem__, **rows)
    assert found == [0.0, 1.0]
    assert logged == {"reasoning_gym/not_scored": 0.5}
    assert "prime_factorization cannot score the answer 'two x three', which gets 0.0: ValueError" in (
        capsys.readouterr().err
    )
    reasoning_gym(["two x four", "two x five"], **rows)
    assert capsys.readouterr().err == "", "once for each kind"


def replaced(monkeypatch: pytest.MonkeyPatch, scorer: Callable[..., float]) -> None:
    monkeypatch.setattr(module, "_scorer", lambda name, config: scorer)


def test_a_scorer_that_cannot_score_its_own_answer_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(answer: str, entry: dict[str, Any]) -> float:
        raise KeyError("digits")

    rows = rows_of("leg_counting", 1)
    replaced(monkeypatch, broken)
    with pytest.raises(KeyError, match="digits"):
        reasoning_gym(["7"], **rows)


@pytest.mark.parametrize("swallows", [False, True])
def test_a_scorer_that_hangs_on_an_answer_is_ended(
    swallows: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def hangs(answer: str, entry: dict[str, Any]) -> float:
        if answer != entry["answer"]:
            try:
                threading.Event().wait(180)
            except BaseException:
                if not swallows:
                    raise
                return 0.5
        return 1.0

    rows = rows_of("leg_counting", 1)
    replaced(monkeypatch, hangs)
    monkeypatch.setattr(module, "LONGEST_S", 0.2)
    module._said.clear()
    assert reasoning_gym(["for ever"], **rows) == [0.0]
    assert "TimeoutError: it took more than 0.2 s" in capsys.readouterr().err


def test_the_table_is_that_of_the_installed_package() -> None:
    assert read_installed() == {
        "release": gym_release(),
        "tasks": {name: {key: list(said) for key, said in (config_keys(name) or {}).items()} for name in task_names()},
    }
