"""The score that a task of reasoning-gym gives the answer of its row."""

import ast
import builtins
import functools
import json
import re
import signal
import sys
import threading
import unicodedata
from collections.abc import Callable
from importlib import import_module
from typing import Any

from grpo_recipes.contract.tasks import ANSWER_IN
from grpo_recipes.contract.tasks.task_rows import dataset_of, from_text
from grpo_recipes.rewards.completion_text import Completion, answer_in_tags, completion_text

LONGEST_S = 10.0
# Scorers that evaluate an answer as Python: the first expects a literal, the others a formula.
LITERALS = ("binary_matrix", "n_queens", "spiral_matrix", "string_insertion")
FORMULAS = ("countdown", "intermediate_integration", "polynomial_multiplication", "puzzle24", "simple_integration")
NO_FORMULA = re.compile(r"""['"`\\]|__|(?<![0-9])\.\s*[A-Za-z_]""")
NAME = re.compile(r"[^\W\d]\w*")
_WORDS = """
abs max min pow round sum Abs Max Min Rational Pow sqrt cbrt root exp log ln sin cos tan sec csc cot asin acos atan sinh
cosh tanh asinh acosh atanh erf erfi gamma beta zeta factorial binomial floor ceiling sign pi E I N oo
"""
OF_FORMULAS = frozenset(_WORDS.split())
_said: set[tuple[str, str]] = set()


class TooLong(BaseException):
    """A scorer took too long; not an Exception, since scorers treat those as a wrong answer."""


def reasoning_gym(
    completions: list[Completion],
    *,
    question: list[str],
    answer: list[str | None],
    task: list[str],
    task_config: list[str],
    metadata: list[str],
    answer_in: str = "completion",
    partial: bool = True,
    **kwargs: Any,
) -> list[float]:
    """Gives the score of the row's task of reasoning-gym, mostly from 0.0 to 1.0.

    answer_in: where the answer is: the whole completion, its last_line, or answer_tag, the last
    <answer>...</answer>; a completion without one has no answer.
    partial: False gives 0.0 to every score below 1.0.
    The columns are those of `dataset.reasoning_gym`. If a scorer raises on an answer, or takes longer than ten
    seconds, the answer gets 0.0. This is printed once per task and logged as reasoning_gym/not_scored. If the scorer
    cannot score the row's own answer either, its error ends the run. Raises ValueError for an option it cannot read.
    """
    if not isinstance(partial, bool):  # "false" would count as true
        raise ValueError(f"partial {partial!r} is neither true nor false")
    rows = zip(completions, question, answer, task, task_config, metadata, strict=True)
    scores: list[float] = []
    failed = 0
    for completion, asked, right, name, config, row_metadata in rows:
        entry = {"question": asked, "answer": right, "metadata": from_text(row_metadata)}
        given = _answer(completion_text(completion), answer_in)
        try:
            score = _score(name, config, given, entry)
            scores.append(score if partial or score >= 1.0 else 0.0)
        except Exception as problem:
            if given == right or not _scores_its_own(name, config, entry):
                raise
            failed += 1
            scores.append(0.0)
            _tell(name, problem, given)
    log_metric = kwargs.get("log_metric")
    if log_metric is not None:
        log_metric("reasoning_gym/not_scored", failed / max(1, len(scores)))
    return scores


def _answer(text: str, answer_in: str) -> str | None:
    if answer_in == "completion":
        return text.strip()
    if answer_in == "last_line":
        return text.strip().rpartition("\n")[2].strip()
    if answer_in == "answer_tag":
        return answer_in_tags(text)
    raise ValueError(f"answer_in {answer_in!r} is not one of {', '.join(ANSWER_IN)}")


@functools.cache
def _scorer(name: str, config: str) -> Callable[[str | None, dict[str, Any]], float]:
    dataset = dataset_of([{"name": name, "weight": 1, "config": json.loads(config)}], size=1, seed=0)
    if name in LITERALS:
        sys.modules[type(dataset).__module__].eval = ast.literal_eval  # type: ignore[attr-defined]
    scorer: Callable[[str | None, dict[str, Any]], float] = dataset.score_answer
    return scorer


def _refuse_code(answer: str) -> None:
    """Raises ValueError for text that sympy would run as Python: strings, attributes, built-in and most sympy
    functions.

    Unknown names are symbols. sympy can create strings, and read them as code.
    """
    sympy, plain = import_module("sympy"), unicodedata.normalize("NFKC", answer)
    names = [name for name in NAME.findall(plain) if name not in OF_FORMULAS]
    own = [name for name in names if hasattr(builtins, name) or hasattr(sympy, name)]
    if own or NO_FORMULA.search(plain):
        raise ValueError(
            f"it is code rather than a formula{f', with {own[0]}' if own else ''}, which the scorer would run"
        )


def _score(name: str, config: str, given: str | None, entry: dict[str, Any]) -> float:
    """The score of an answer. Raises what the scorer raises, TimeoutError, and ValueError for code."""
    if name in FORMULAS and given is not None:
        _refuse_code(given)
    return float(_within_limit(_scorer(name, config), given, entry))


def _scores_its_own(name: str, config: str, entry: dict[str, Any]) -> bool:
    """Whether the scorer can score the row's own answer, so that the given answer is the cause."""
    try:
        _score(name, config, entry["answer"], entry)
    except Exception:
        return False
    return True


def _within_limit(scorer: Callable[..., float], given: str | None, entry: dict[str, Any]) -> float:
    """The score, within LONGEST_S; signals reach only the main thread, for which other threads wait."""
    if threading.current_thread() is not threading.main_thread():
        return scorer(given, entry)
    is_over = False

    def end(*_: object) -> None:
        nonlocal is_over
        is_over = True
        raise TooLong

    before = signal.signal(signal.SIGALRM, end)
    left, _ = signal.setitimer(signal.ITIMER_REAL, LONGEST_S, 1.0)  # again, in case it swallows the signal
    try:
        score = scorer(given, entry)
    except TooLong:
        score = 0.0
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)
        signal.signal(signal.SIGALRM, before)
    if is_over:
        raise TimeoutError(f"it took more than {LONGEST_S:g} s")
    return score


def _tell(name: str, problem: Exception, given: str | None) -> None:
    """Prints once per task and kind of error that an answer could not be scored."""
    kind = (name, type(problem).__name__)
    if kind not in _said:
        _said.add(kind)
        shown = " ".join(repr(given)[:80].split())
        text = f"{kind[1]}: {' '.join(str(problem).split())[:200]}"
        print(f"reasoning_gym: {name} cannot score the answer {shown}, which gets 0.0: {text}", file=sys.stderr)
