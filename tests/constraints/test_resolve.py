"""`make resolve`: an answer that is not as tested is told, and an index that is down is something else."""

from pathlib import Path

import pytest
from resolve import ALL, CUDA, Asked, Question, faults, questions
from resolved_page import page
from resolving import Answer, asked_of_uv, pins, refused

TESTED = pins(CUDA.read_text(encoding="utf-8"))
# As uv 0.13 and pip 26 said it.
BROKEN = """\
error: No solution found when resolving dependencies
  cause: Because you require torch>=2.6,<2.14 and torch==2.14.0, we can conclude that your requirements
  are unsatisfiable.
"""
DOWN = """\
error: Request failed after 3 retries in 6.2s
  cause: Failed to fetch: https://127.0.0.1:9/simple/six/
  cause: error sending request for url (https://127.0.0.1:9/simple/six/)
  cause: tcp connect error
  cause: Connection refused (os error 111)
"""
OF_PIP = """\
WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by \
'NewConnectionError("HTTPSConnection(host='127.0.0.1', port=9): Failed to establish a new connection")': /simple/six/
"""
BROKEN_OF_PIP = """\
ERROR: Could not find a version that satisfies the requirement six>99 (from versions: 1.16.0, 1.17.0)
ERROR: No matching distribution found for six>99
"""


def test_the_tested_set_is_as_tested() -> None:
    assert list(faults(Answer(TESTED), "3.12", None, TESTED)) == []
    assert list(faults(Answer(TESTED), "3.12", CUDA, TESTED)) == []


def test_a_newer_patch_release_is_as_tested() -> None:
    assert list(faults(Answer({**TESTED, "vllm": "0.30.7"}), "3.12", None, TESTED)) == []


def test_a_new_release_that_was_not_tested_is_told() -> None:
    (fault,) = faults(Answer({**TESTED, "torch": "2.15.0", "vllm": ""}), "3.12", None, TESTED)
    assert fault.startswith("torch 2.15.0 would be installed, tested was 2.13.0")


def test_releases_that_do_not_go_together_are_told() -> None:
    found = list(faults(Answer({**TESTED, "vllm": "0.31.0"}), "3.12", None, TESTED))
    assert any(
        f"vllm 0.31.0 declares transformers>=5.10.4,<5.18.0, beside {TESTED['transformers']}" in fault
        for fault in found
    )


def test_what_the_constraints_do_not_name_is_told() -> None:
    answer = Answer({**TESTED, "brand-new": "1.0", "six": "9.9"})
    assert list(faults(answer, "3.12", CUDA, TESTED)) == [
        "brand-new 1.0 would be installed, cuda.txt has none",
        f"six 9.9 would be installed, cuda.txt has {TESTED['six']}",
    ]


def test_a_set_that_cannot_be_installed_is_told_and_an_index_that_is_down_is_not_blamed_on_it() -> None:
    assert [refused(said).unreachable for said in (BROKEN, BROKEN_OF_PIP)] == [False, False]
    assert [refused(said).unreachable for said in (DOWN, OF_PIP)] == [True, True]
    assert list(faults(refused(DOWN), "3.12", None, TESTED)) == []
    (fault,) = faults(refused(BROKEN), "3.12", None, TESTED)
    assert "No solution found" in fault


@pytest.mark.processes
def test_uv_without_an_index_is_told_from_uv_without_a_solution(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from resolving import TOOLS

    if not (TOOLS / "uv").exists():
        pytest.skip("uv is in .venv-resolve, which `make resolve` makes")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    assert asked_of_uv(["six>=1"], "3.12").unreachable
    answer = asked_of_uv(["six>=1,<1"], "3.12")
    assert answer.versions is None


def test_every_combination_is_asked_on_every_python() -> None:
    asked = [one for one in questions(full=False, interpreters={}) if one.interpreter is None]
    assert len(asked) == len(set(asked)) == 27
    assert {(one.extras, one.python) for one in asked if one.constraints == CUDA} == {
        (ALL, python) for python in ("3.11", "3.12", "3.13")
    }
    with_pip = [one for one in questions(full=False, interpreters={"3.11": "python3.11"}) if one.interpreter]
    assert Question(ALL, "3.11", CUDA, "python3.11") in with_pip


def test_the_page_shows_equal_answers_in_one_line() -> None:
    rows = [Asked(("train",), python, "uv", None, Answer(TESTED), ()) for python in ("3.11", "3.12")]
    text = page([*rows, Asked(("vllm",), "3.11", "pip", None, Answer(None), ())], rows[:1])
    assert f"| train | {TESTED['torch']} | {TESTED['transformers']} | {TESTED['trl']} |" in text
    assert "uv on 3.11, 3.12 |" in text
    assert "| vllm | - | - | - | - | - | - | - | cannot be installed | 0 | pip on 3.11 |" in text
