"""A preflight asks each judge once, shows what it said, and says what keeps it from answering."""

import json
import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from preflight_runs import QUICKSTART, Answer
from support.judging import asked_text, completion, endpoint

from grpo_recipes.trust.code import _sha256

pytestmark = pytest.mark.stack

KEY = "sk-judge-0123456789abcdefghij"
Preflight = Callable[..., Answer]


@pytest.fixture
def judged(preflight: Preflight, sums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """A preflight of the quickstart with judges beside its reward, of which each has an address and changes."""
    monkeypatch.setenv("JUDGE_API_KEY", KEY)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(*addressed: tuple[str, dict[str, Any]], options: tuple[str, ...] = ()) -> Answer:
        prompt = "{{ question }}{{ completion }} is right?"
        common = {"model": "small", "prompt": prompt, "retries": 0, "key_variable": "JUDGE_API_KEY", "scale": [0, 10]}
        judges = [{"base_url": url, **common, **changes} for url, changes in addressed]
        recipe = {
            "extends": str(QUICKSTART),
            "dataset": {"path": str(sums)},
            "evaluation": None,
            "rewards": [{"name": "exact_match"}, *({"judge": judge} for judge in judges)],
        }
        (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
        shas = [_sha256(f"judge {judge['base_url']} {judge['key_variable']}") for judge in judges]
        allowed = [word for sha in shas for word in ("--allow-code", sha)]
        return preflight("recipe.yaml", "--rows", "4", *allowed, *options)

    return run


def test_a_judge_is_asked_once_and_shown(judged: Callable[..., Answer]) -> None:
    with endpoint(lambda body: f"{KEY} is right.\nScore: 8/10") as served:
        answer = judged((served.url, {}))
        assert answer.code == 0, answer.out + answer.err
        assert len(served.asked) == 1
        assert served.keys == [f"Bearer {KEY}"]
        question = re.fullmatch(r"(\d+)\+(\d+)=(\d+) is right\?", asked_text(served.asked[0]))
        assert question is not None
        assert int(question[1]) + int(question[2]) == int(question[3]), "the right answer of the row"
        assert judged((served.url, {})).code == 0
        assert len(served.asked) == 2, "it asks whatever was answered before"
    shown = answer.out.partition(f"small at {served.url} is asked\n")[2].splitlines()[:4]
    assert shown == [f"  | {question[0]}", "  says <redacted> is right.", "    Score: 8/10", "  reward judge: 0.8"]
    assert KEY not in answer.out + answer.err


CASES: dict[str, tuple[Any, dict[str, Any], list[str]]] = {
    "no score": (lambda body: "yes", {}, ["its answer to row ", "no score in 'yes'"]),
    "a score outside": (lambda body: "80", {}, ["has no score", "the score 80 is not between 0 and 10"]),
    "a score on the prompt's scale": (
        lambda body: "7",
        {"prompt": "{{ completion }} How good is it, from 0 to 10?", "scale": [0, 1]},
        ["the score 7 is not between 0 and 1", "scale: [0, 10], as the prompt asks"],
    ),
    "a score outside of both": (
        lambda body: "80",
        {"prompt": "{{ completion }} How good is it, 0-10?"},
        ["the score 80 is not between 0 and 10", "a prompt that asks for only the number"],
    ),
    "a wrong key": (
        lambda body: (401, {}, b'{"error": {"message": "unknown key"}}'),
        {},
        ["cannot be asked", "HTTP 401: unknown key", "check the endpoint's key in JUDGE_API_KEY"],
    ),
    "a wrong model": (
        lambda body: (404, {}, b"no model"),
        {},
        ["HTTP 404: no model", "check judge.model, the endpoint's name"],
    ),
    "a cut answer": (
        lambda body: (200, {}, completion("7", finish_reason="length")),
        {},
        ["gives no answer", "the answer is cut at max_tokens", "raise judge.max_tokens"],
    ),
    "nothing there": (None, {}, ["Connection refused", "check judge.base_url, and whether the endpoint runs"]),
    "no key": (lambda body: "5", {"key_variable": "OTHER_API_KEY"}, ["OTHER_API_KEY", "it is not set"]),
    "a null": (
        lambda body: "5",
        {"prompt": "{{ completion }}{{ none }}"},
        ["a row cannot fill the judge's prompt", "an expression in it is null for this row"],
    ),
}


def test_each_judge_that_gives_no_score_is_one_error(judged: Callable[..., Answer]) -> None:
    with ExitStack() as serving:
        urls = [
            "http://127.0.0.1:9/v1" if answers is None else serving.enter_context(endpoint(answers)).url
            for answers, _, _ in CASES.values()
        ]
        judges = [(url, changes) for url, (_, changes, _) in zip(urls, CASES.values(), strict=True)]
        answer = judged(*judges, options=("--json",))
    assert answer.code == 2, answer.out + answer.err
    assert {(finding["rule"], finding["severity"]) for finding in answer.findings} == {("PFL039", "error")}
    keys = [f"rewards[{place}].judge" for place in range(1, len(CASES) + 1)]
    assert {finding["key"] for finding in answer.findings} == {*keys}
    for finding in answer.findings:
        case, (_, _, words) = [*CASES.items()][keys.index(finding["key"])]
        text = " ".join([finding["message"], *finding["because"], finding["fix"] or ""])
        assert [word for word in words if word not in text] == [], case
