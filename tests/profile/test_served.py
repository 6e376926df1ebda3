"""A profile that a server answers: what it is asked, and what its rows say of it."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from profile_runs import FEW, QUICKSTART, Answer, rows_of
from support.judging import Request, asked_text, completion, endpoint

from grpo_recipes.trust.code import _sha256

Profile = Callable[..., Answer]
KEY = "sk-serve-0123456789abcdefghij"


def sums_right(body: Request) -> str:
    """Right for even sums, and for three of four seeds of the others."""
    found = re.fullmatch(r"(\d+)\+(\d+)=", asked_text(body))
    assert found is not None
    total = int(found[1]) + int(found[2])
    return str(total if total % 2 == 0 or body["seed"] % 4 else total + 1)


@pytest.mark.stack
def test_a_server_answers_each_row_as_the_recipe_samples(
    profile: Profile, sums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER_API_KEY", KEY)
    with endpoint(sums_right) as served:
        words = ("--base-url", served.url, "--model", "sums", "--key-variable", "SERVER_API_KEY", "--samples", 4)
        values = {"generation.temperature": 0.7, "generation.stop": ["\n"], "dataset.system_prompt": "Add."}
        done = profile("-o", "rows.jsonl", *words, "--json", **values)
        assert done.code == 0, done.err
        assert len(served.asked) == 4 * FEW
        body = dict(served.asked[0])
        seeds = {(asked_text(one), one["seed"]) for one in served.asked}
        profile("-o", "again.jsonl", *words, **values)
        assert {(asked_text(one), one["seed"]) for one in served.asked} == seeds, "a seed per row and sample"
    assert len(seeds) == 4 * FEW
    assert set(served.keys) == {f"Bearer {KEY}"}
    assert body["messages"][0] == {"role": "system", "content": "Add."}
    del body["messages"], body["seed"]
    assert body == {
        "model": "sums",
        "temperature": 0.7,
        "top_p": 1.0,
        "max_tokens": 6,
        "stop": ["\n"],
        "include_stop_str_in_output": True,
    }
    rows = rows_of(tmp_path / "rows.jsonl")
    assert [row["question"] for row in rows] == [row["question"] for row in rows_of(sums)]
    assert all(row["pass_rate"] == 1.0 for row in rows if int(row["answer"]) % 2 == 0)
    assert any(0 < row["pass_rate"] < 1 for row in rows)
    assert rows[0]["profile"]["model"] == f"sums at {served.url}"
    assert rows[0]["profile"]["template"] == "of a server"
    assert (tmp_path / "rows.jsonl").read_bytes() == (tmp_path / "again.jsonl").read_bytes()
    assert json.loads(done.out)["rows"] == FEW
    assert KEY not in (tmp_path / "rows.jsonl").read_text() + done.out + done.err


@pytest.mark.stack
def test_a_server_that_fails_keeps_what_is_answered_and_the_command_goes_on(
    profile: Profile, sums: Path, tmp_path: Path
) -> None:
    fails = [True]

    def answer(body: Request) -> Any:
        if fails and asked_text(body) == rows_of(sums)[FEW - 1]["question"]:
            return (400, {}, b'{"error": {"message": "too long"}}')
        return sums_right(body)

    with endpoint(answer) as served:
        words = ("-o", "rows.jsonl", "--base-url", served.url, "--model", "sums")
        done = profile(*words)
        assert done.code == 1, done.err
        assert f"sums at {served.url} did not answer row {FEW}" in done.err
        assert "HTTP 400: too long" in done.err
        kept = rows_of(tmp_path / "rows.partial.jsonl")
        assert len(kept) == 32
        fails.clear()
        served.asked.clear()
        done = profile(*words)
        assert done.code == 0, done.err
        assert len(served.asked) == (FEW - 32) * 8
    assert rows_of(tmp_path / "rows.jsonl")[:32] == kept
    (tmp_path / "rows.jsonl").rename(tmp_path / "mine.partial.jsonl")
    other = profile("-o", "mine.jsonl")
    assert other.code == 2
    assert "is part of a different profile" in other.err
    assert "model: sums at" in other.err


@pytest.mark.stack
def test_an_empty_answer_is_no_wrong_one_and_a_cut_one_is_whole(profile: Profile, sums: Path, tmp_path: Path) -> None:
    rows = rows_of(sums)

    def answer(body: Request) -> Any:
        if asked_text(body) == rows[0]["question"] and body["seed"] % 2:
            return (200, {}, completion("" if body["seed"] % 3 else None))
        return (200, {}, completion(sums_right(body), finish_reason="length"))

    with endpoint(answer) as served:
        words = ("-o", "rows.jsonl", "--base-url", served.url, "--model", "sums", "--max-rows", 2)
        done = profile(*words)
    assert done.code == 0, done.err
    assert [row["pass_rate"] is None for row in rows_of(tmp_path / "rows.jsonl")] == [True, False]
    assert "not judged" in done.out
    with endpoint(lambda body: (200, {}, completion(None))) as served:
        done = profile("-o", "none.jsonl", "--base-url", served.url, "--model", "sums", "--max-rows", 2)
    assert done.code == 1
    assert "did not answer row 1" in done.err
    assert "the answer is empty" in done.err


@pytest.mark.stack
def test_a_judge_that_gives_no_score_makes_no_row_hard(
    profile: Profile, sums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    unjudged = [rows_of(sums)[0]["question"]]
    with (
        endpoint(sums_right) as served,
        endpoint(lambda body: "x" if unjudged[-1] in asked_text(body) else "1") as judge,
    ):
        how = {"base_url": judge.url, "model": "m", "prompt": "{{ question }}{{ completion }}", "retries": 0}
        values: dict[str, Any] = {"rewards": [{"judge": how}], "evaluation.passes.reward": "judge"}
        words = (
            "--base-url",
            served.url,
            "--model",
            "sums",
            "--max-rows",
            2,
            "--allow-code",
            _sha256(f"judge {judge.url} None"),
        )
        done = profile("-o", "rows.jsonl", *words, **values)
        unjudged.append("")  # every answer
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another cache"))
        without = profile("-o", "none.jsonl", *words, **values)
    assert done.code == 0, done.err
    assert [row["pass_rate"] for row in rows_of(tmp_path / "rows.jsonl")] == [None, 1.0]
    assert "not judged" in done.out
    assert without.code == 3, without.out
    assert "reward judge gave no score to at least one answer of each row" in without.err
    assert not (tmp_path / "none.jsonl").exists()


@pytest.mark.stack
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dataset.path": "owner/not-there"}, "dataset: owner/not-there cannot be loaded"),
        ({"dataset.prompt_format": "standard"}, "the prompts are plain text, and a server accepts only messages"),
    ],
)
def test_what_keeps_a_server_from_being_asked_is_one_message(
    values: dict[str, Any], message: str, profile: Profile, sums: Path
) -> None:
    done = profile("-o", "rows.jsonl", "--base-url", "http://127.0.0.1:9/v1", "--model", "sums", **values)
    assert done.code in (1, 3), done.err
    assert message in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "sums"), "--model and --key-variable need --base-url"),
        (("--base-url", "127.0.0.1:8000/v1"), "--base-url is not the address of a server"),
        (("--base-url", "http://me:secret@127.0.0.1/v1"), "--base-url is not the address of a server"),
        (
            ("--base-url", "http://127.0.0.1:9/v1", "--set", "rewards=[{model: owner/reward}]"),
            "--base-url: the recipe has a reward model",
        ),
    ],
)
def test_a_server_that_cannot_be_asked_is_refused(
    words: tuple[str, ...], message: str, grpo_run: Callable[..., Any], tmp_path: Path
) -> None:
    passes = ("--set", "evaluation.passes.reward=reward") if "owner/reward" in str(words) else ()
    answer = grpo_run("profile", str(QUICKSTART), "-o", str(tmp_path / "rows.jsonl"), *words, *passes)
    assert answer.code == 2
    assert message in answer.err
    assert "secret" not in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.stack
def test_a_single_row_is_answered(profile: Profile, sums: Path, tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text(sums.read_text().splitlines(keepends=True)[0])
    done = profile("-o", "rows.jsonl", "--samples", 2, rows="one.jsonl")
    assert done.code == 0, done.err
    assert len(rows_of(tmp_path / "rows.jsonl")) == 1


@pytest.mark.stack
def test_a_reward_without_a_number_is_no_pass_rate(profile: Profile, sums: Path, tmp_path: Path) -> None:
    (tmp_path / "rewards.py").write_text(
        "def nan(completions, **kwargs):\n    return [float('nan')] * len(completions)\n"
    )
    python = f"{tmp_path / 'rewards.py'}:nan"
    values: dict[str, Any] = {"rewards": [{"python": python}], "evaluation.passes.reward": "nan"}
    done = profile("-o", "rows.jsonl", "--samples", 2, "--max-rows", 2, **values)
    assert done.code == 3, done.out + done.err
    assert "reward nan returned no number for any answer" in done.err
    assert not (tmp_path / "rows.jsonl").exists()
