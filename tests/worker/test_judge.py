"""A judge: what it is asked, how its answer becomes a reward, and what happens where it gives none."""

import functools
import json
import multiprocessing
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.judging import Request, asked_text, completion, endpoint
from test_several_processes import for_two
from worker_runs import Changes, events, planned_data, planned_reward

from grpo_recipes.contract.files.regular_file import file_sha256
from grpo_recipes.contract.plan import Reward
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.data.limits import limit_block
from grpo_recipes.worker.user_code import judge
from grpo_recipes.worker.user_code.judge import Judge

KEY = "sk-judge-0123456789abcdefghij"
VARIABLE = "JUDGE_API_KEY"
TWO = (["1+1=", "1+2="], ["2", "4"], {"level": ["easy", "hard"]})
Say = Callable[..., Any]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of the test, and the key of the endpoint."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(VARIABLE, KEY)
    return tmp_path / "cache" / "grpo-run" / "asked"


def reward(url: str, **changes: Any) -> Reward:
    """A judge as a plan has it, which does not wait long."""
    how = {
        "model": "small",
        "prompt": "{{ level }}: {{ prompt }}{{ completion }}",
        "score": None,
        "scale": [0.0, 10.0],
        "key_variable": VARIABLE,
        "timeout": 20.0,
        "retries": 0,
        "concurrency": 4,
        "temperature": 0.0,
        "max_tokens": 32,
        "request": {},
        **changes,
    }
    return Reward("judge", "judge", url, 1.0, how)


def scores(url: str, given: tuple[list[Any], list[Any], dict[str, Any]] = TWO, **changes: Any) -> list[float | None]:
    """What a judge gives to the completions, as TRL calls it."""
    prompts, completions, columns = given
    ids = [[1] for _ in completions]
    return Judge(reward(url, **changes))(prompts, completions, completion_ids=ids, trainer_state=None, **columns)


def by_level(body: Request) -> str:
    return "Score: 7" if asked_text(body).startswith("easy") else "I give 2 out of 10."


def failing(status: int, text: bytes = b"", **headers: str) -> Callable[[Request], tuple[int, dict[str, str], bytes]]:
    """An answer with this status."""
    return lambda body: (status, headers, text)


def test_each_completion_gets_the_score_of_its_own_question() -> None:
    with endpoint(by_level) as served:
        assert scores(served.url, request={"top_p": 0.5}) == [0.7, 0.2]
    assert sorted(map(asked_text, served.asked)) == ["easy: 1+1=2", "hard: 1+2=4"]
    assert served.keys == [f"Bearer {KEY}"] * 2
    body = {**served.asked[0], "messages": len(served.asked[0]["messages"])}
    assert body == {"model": "small", "temperature": 0.0, "max_tokens": 32, "top_p": 0.5, "messages": 1}


def test_messages_count_by_their_last_text_and_a_call_of_a_tool_does_not() -> None:
    prompts = [[{"role": "system", "content": "s"}, {"role": "user", "content": "1+1="}]]
    said = [[{"role": "assistant", "content": "2"}, {"role": "tool", "content": "ok"}]]
    with endpoint(by_level) as served:
        assert scores(served.url, (prompts, said, {"level": ["easy"]}), temperature=None, max_tokens=None) == [0.7]
    assert asked_text(served.asked[0]) == "easy: 1+1=2"
    assert sorted(served.asked[0]) == ["messages", "model"]


@pytest.mark.parametrize(
    ("answer", "how", "score"),
    [
        ("7", {}, 0.7),
        ("**Score: 7/10**", {}, 0.7),
        ("First 3 of the steps, then 8 out of 10.", {}, 0.8),
        ("Nine or eight?\n6.5.", {}, 0.65),
        ("**7**/10", {}, 0.7),
        ("Step 1 is right. 7 (of 10)", {}, 0.7),
        ("Step 1 is right: 7 (out of 10).", {}, 0.7),
        ("I would say 7. Yes, 7.", {}, 0.7),
        ("Score: .5", {}, 0.05),
        ("-3", {"scale": None}, -3.0),
        ("\u22123", {"scale": None}, -3.0),
        ("+3", {"scale": None}, 3.0),
        ("score-3", {"scale": None}, 3.0),
        ("It is good.7", {}, 0.7),
        ("Score: \u22123", {"scale": None, "score": "Score: (.*)"}, -3.0),
        ("<think>9 or 8?</think>\n6.5.", {}, None),
        ("8. Two of its 3 steps are right.", {}, None),
        ("7/10, or with more care 6", {}, None),
        ("7 or 8", {}, None),
        ("7-8", {}, None),
        ("7\u20138", {}, None),
        ("7,5", {}, None),
        ("1,000", {"scale": None}, None),
        ("1.000.000", {"scale": None}, None),
        ("7,5/10", {}, None),
        ("1e3", {"scale": None}, None),
        ("on 5/7/10", {}, None),
        ("0", {}, 0.0),
        ("10", {}, 1.0),
        ("Score: 4\nconfidence 9", {"score": "Score: ([0-9]+)"}, 0.4),
        ("Score: 4, no, Score: 5", {"score": "Score: ([0-9]+)"}, 0.5),
        ("3", {"scale": [1.0, 5.0]}, 0.5),
        ("good", {}, None),
        ("", {}, None),
        ("11", {}, None),
        ("-1", {}, None),
        ("Score: high", {"score": "Score: (.*)"}, None),
        ("Score: nan", {"score": "Score: (.*)", "scale": None}, None),
        ("Score: 1e999", {"score": "Score: (.*)", "scale": None}, None),
    ],
)
def test_the_score_is_the_only_number_or_what_the_pattern_finds(
    answer: str, how: dict[str, Any], score: float | None
) -> None:
    with endpoint(lambda body: answer) as served:
        assert scores(served.url, (["q"], ["a"], {"level": ["x"]}), **how) == [score]


def test_what_was_answered_is_not_asked_again_whatever_the_score_is_read_by(cache: Path) -> None:
    with endpoint(by_level) as served:
        first = scores(served.url)
        assert scores(served.url) == first
        assert scores(served.url, scale=None, score="([0-9]+)", timeout=9.0) == [7.0, 10.0]
        assert len(served.asked) == 2
        assert scores(served.url, max_tokens=33) == first
        assert scores(served.url, (["q"] * 8, ["a"] * 8, {"level": ["easy"] * 8})) == [0.7] * 8
        assert len(served.asked) == 5, "two for another request, and one for eight equal questions"
    assert scores(served.url) == first, "also when the endpoint is gone"
    assert {path.stat().st_mode & 0o777 for path in cache.rglob("*.json")} == {0o600}


@pytest.mark.parametrize("content", [b"", b'{"answer": "9', b"[]", b'{"answer": 3}', b"\xff\xfe"])
def test_a_damaged_answer_of_the_cache_is_asked_for_again(cache: Path, content: bytes) -> None:
    with endpoint(by_level) as served:
        first = scores(served.url)
        for path in cache.rglob("*.json"):
            path.write_bytes(content)
        assert scores(served.url) == first
        assert len(served.asked) == 4


def test_a_cache_that_cannot_be_written_is_told_once(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text("a file where the folder should be")
    with endpoint(by_level) as served:
        judge = Judge(reward(served.url))
        for _ in range(2):
            assert judge(*TWO[:2], **TWO[2])[0] == 0.7
        assert len(served.asked) == 4
    told = capsys.readouterr().out
    assert told.count("the judge's answers cannot be cached in") == 1


def _many(url: str, results: Any) -> None:
    rows = [str(number) for number in range(40)]
    results.put(scores(url, (rows, rows, {"level": ["easy"] * 40}), concurrency=8))


@pytest.mark.processes
def test_several_processes_share_the_cache(cache: Path) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    with endpoint(by_level) as served:
        processes = [context.Process(target=_many, args=(served.url, results)) for _ in range(3)]
        for process in processes:
            process.start()
        assert [results.get(timeout=60) for _ in processes] == [[0.7] * 40] * 3
        for process in processes:
            process.join()
    assert len(list(cache.rglob("*.json"))) == 40
    assert all(json.loads(path.read_text()) == {"answer": "Score: 7"} for path in cache.rglob("*.json"))
    assert [path for path in cache.rglob("*") if path.name.endswith(".writing")] == []


def late(body: Request) -> str:
    time.sleep(1.0)
    return "7"


FAILURES: dict[str, tuple[Say, str]] = {
    "an error of the endpoint": (failing(500, b"boom"), "HTTP 500: boom"),
    "too many requests": (failing(429, b'{"error": {"message": "slow down"}}'), "HTTP 429: slow down"),
    "a request that it cannot take": (failing(400, b'{"error": {"message": "too long"}}'), "HTTP 400: too long"),
    "a page": (failing(200, b"<html>"), "the answer is not the JSON of a chat completion"),
    "other JSON": (failing(200, b'{"choices": []}'), "the answer is not the JSON of a chat completion"),
    "an error that is called a success": (
        failing(200, b'{"error": {"message": "no credit", "code": 402}}'),
        "the answer is an error: no credit",
    ),
    "an error in words": (failing(200, b'{"error": "overloaded"}'), "the answer is an error: overloaded"),
    "a cut answer": (failing(200, completion("7", finish_reason="length")), "the answer is cut at max_tokens"),
    "an empty answer": (failing(200, completion("")), "the answer is empty"),
    "a refusal": (failing(200, completion(None)), "the answer is empty"),
    "no number": (lambda body: "I like it", "no score in 'I like it'"),
    "several numbers": (lambda body: "7 or 8", "several numbers; write judge.score, in '7 or 8'"),
    "a score outside": (lambda body: "70", "the score 70 is not between 0 and 10, in '70'"),
    "a late answer": (late, "no answer within 0.3 s"),
    "half of an answer": (
        failing(200, b"{", **{"Content-Length": "9"}),
        "the answer is not the JSON of a chat completion",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_judge_that_fails_gives_none_and_says_why(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer, why = FAILURES[case]
    with endpoint(answer) as served:
        timeout = 0.3 if answer is late else 20.0
        assert scores(served.url, timeout=timeout) == [None, None]
    said = capsys.readouterr().out
    assert said.startswith("reward judge: no score for 2 of 2 completions, 2 so far: ")
    assert why in said


def test_an_answer_that_comes_byte_by_byte_is_too_late() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def drip() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            for _ in range(200):
                if over.wait(0.05):
                    return
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        assert scores(url, (["q"], ["a"], {"level": ["x"]}), timeout=0.4) == [None]
        thread.join(2.0)
        assert not thread.is_alive(), "the connection was ended"
    finally:
        over.set()
        thread.join()
        listening.close()


def test_a_passing_failure_is_asked_again_and_a_lasting_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [failing(503), failing(429, **{"Retry-After": "0"}), by_level]
    with endpoint(lambda body: (left.pop(0) if len(left) > 1 else left[0])(body)) as served:
        assert scores(served.url, (["q"], ["a"], {"level": ["easy"]}), retries=2) == [0.7]
        assert len(served.asked) == 3
    with endpoint(failing(400)) as served:
        assert scores(served.url, retries=3) == [None, None]
        assert len(served.asked) == 2


def test_an_endpoint_that_is_down_is_not_asked_for_each_completion(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [str(number) for number in range(60)]
    with endpoint(failing(502)) as served:
        assert scores(served.url, (rows, rows, {"level": rows}), concurrency=2) == [None] * 60
        assert 2 <= len(served.asked) <= 6
    assert "no score for 60 of 60 completions, 60 so far: HTTP 502" in capsys.readouterr().out


def test_a_completion_that_always_fails_leaves_the_others_their_scores() -> None:
    def answer(body: Request) -> Any:
        return failing(500)(body) if asked_text(body).startswith("0:") else "5"

    rows = [str(number) for number in range(20)]
    with endpoint(answer) as served:
        found = scores(served.url, (rows, rows, {"level": rows}), concurrency=2)
    assert found == [None, *[0.5] * 19]


@pytest.mark.parametrize(("status", "way"), [(401, f"the endpoint's key in {VARIABLE}"), (404, "judge.model")])
def test_a_wrong_key_or_model_stops_at_the_first_question(status: int, way: str) -> None:
    with endpoint(failing(status, b'{"error": {"message": "not you"}}')) as served, pytest.raises(Refused) as stopped:
        scores(served.url)
    text = str(stopped.value)
    assert f"reward judge: small at {served.url} cannot be asked" in text
    assert f"HTTP {status}: not you" in text
    assert way in text


def test_a_judge_that_has_answered_may_fail_later(capsys: pytest.CaptureFixture[str]) -> None:
    answers: list[Say] = [by_level]
    with endpoint(lambda body: answers[-1](body)) as served:
        judge = Judge(reward(served.url))
        assert judge(["q"], ["a"], level=["easy"]) == [0.7]
        answers.append(failing(404))
        assert judge(["q"], ["b"], level=["easy"]) == [None]
        answers.append(failing(403))
        with pytest.raises(Refused, match="cannot be asked"):
            judge(["q"], ["c"], level=["easy"])
    assert "no score for 1 of 1 completion, 1 so far: HTTP 404" in capsys.readouterr().out


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_revoked_stops_a_run_that_has_begun(status: int) -> None:
    answers: list[Say] = [by_level]
    with endpoint(lambda body: answers[-1](body)) as served:
        judge = Judge(reward(served.url))
        assert judge(["q"], ["a"], level=["easy"]) == [0.7]
        answers.append(failing(status, b"revoked"))
        with pytest.raises(Refused) as stopped:
            judge(["q"], ["b"], level=["easy"])
    assert f"cannot be asked\n  = because: HTTP {status}: revoked" in str(stopped.value)
    assert f"check the endpoint's key in {VARIABLE}" in str(stopped.value)


CUT = failing(200, completion("7", finish_reason="length"))


@pytest.mark.parametrize("first", [CUT, failing(200, completion("")), lambda body: "I like it", lambda body: "70"])
def test_an_answer_without_a_score_is_asked_for_again(first: Say, cache: Path) -> None:
    answers: list[Say] = [first]
    with endpoint(lambda body: answers[-1](body)) as served:
        assert scores(served.url) == [None, None]
        assert list(cache.rglob("*.json")) == []
        answers.append(by_level)
        assert scores(served.url) == [0.7, 0.2], "after the endpoint was mended"
        assert len(served.asked) == 4


@pytest.mark.parametrize("status", [501, 520, 599])
def test_any_failure_of_the_server_is_asked_again(status: int) -> None:
    left = [failing(status), by_level]
    with endpoint(lambda body: (left.pop(0) if len(left) > 1 else left[0])(body)) as served:
        assert scores(served.url, (["q"], ["a"], {"level": ["easy"]}), retries=1) == [0.7]


def test_half_of_a_character_ends_nothing(cache: Path) -> None:
    with endpoint(lambda body: "\ud800 Score: 7") as served:
        assert scores(served.url, (["q"], ["a \udfff"], {"level": ["\ud800"]})) == [0.7]
        assert asked_text(served.asked[0]) == "?: qa ?"
    with endpoint(failing(500, b'{"error": {"message": "\\ud800 no"}}')) as served:
        assert scores(served.url) == [None, None]


def test_nothing_that_an_endpoint_says_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for answer in (failing(400, b"\x1b[2Jgone"), failing(200, completion("\x1b]x\x07 good"))):
        with endpoint(answer) as served:
            assert scores(served.url) == [None, None]
    with endpoint(failing(401, b"\x1b[2Jgone")) as served, pytest.raises(Refused) as stopped:
        scores(served.url)
    said = capsys.readouterr().out + str(stopped.value)
    assert "[2Jgone" in said
    assert said.replace("\n", "").isprintable()


def test_a_key_that_comes_back_is_nowhere(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(lambda body: f"Bearer {KEY} gives 3") as served:
        assert scores(served.url) == [0.3, 0.3]
        assert scores(served.url, scale=[5.0, 9.0]) == [None, None]
    with endpoint(failing(500, f"Authorization: Bearer {KEY}".encode() + b"x" * 500)) as served:
        assert scores(served.url) == [None, None]
    wrong = failing(401, json.dumps({"error": {"message": f"wrong: {KEY}"}}).encode())
    with endpoint(wrong) as served, pytest.raises(Refused) as stopped:
        scores(served.url)
    with endpoint(failing(302, Location=f"http://elsewhere/?key={KEY}")) as served:
        assert scores(served.url) == [None, None]
    chain, problem = [], stopped.value
    while problem is not None:
        chain.append(repr(problem))
        problem = problem.__cause__ or problem.__context__  # type: ignore[assignment]
    kept = "".join(path.read_text() for path in cache.rglob("*.json"))
    said = capsys.readouterr()
    assert "<redacted>" in kept
    assert "<redacted>" in said.out
    for text in (said.out, said.err, kept, *chain):
        assert KEY[:12] not in text


def test_a_redirect_takes_neither_key_nor_text_elsewhere() -> None:
    with endpoint(by_level) as other, endpoint(failing(307, Location=f"{other.url}/chat/completions")) as served:
        assert scores(served.url) == [None, None]
        assert (len(served.asked), other.asked) == (2, [])


@pytest.mark.parametrize(
    ("value", "name", "why"),
    [
        (None, VARIABLE, "it is not set"),
        (" ", VARIABLE, "it is not set"),
        (f"{KEY}\nX-More: 1", VARIABLE, "it contains characters that a key cannot contain"),
        ("sk-1234", VARIABLE, "it is shorter than 8 characters"),
        (KEY, "HOME_PAGE", "its name does not say that its value is secret"),
    ],
)
def test_a_key_that_cannot_be_sent_is_refused_without_it(
    value: str | None, name: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    if value is not None:
        monkeypatch.setenv(name, value)
    with pytest.raises(Refused) as stopped:
        scores("http://127.0.0.1:9/v1", key_variable=name)
    assert f"the key of http://127.0.0.1:9/v1 cannot be taken from {name}" in str(stopped.value)
    assert why in str(stopped.value)
    assert KEY[:12] not in str(stopped.value)


def test_no_key_is_sent_without_a_variable() -> None:
    with endpoint(by_level) as served:
        assert scores(served.url, key_variable=None) == [0.7, 0.2]
    assert served.keys == [None, None]


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends what takes too long sooner than the two seconds of limit_block, which test_templates.py waits for."""
    monkeypatch.setattr(judge, "limit_block", functools.partial(limit_block, 0.2))


@pytest.mark.usefixtures("short_limit")
@pytest.mark.parametrize(
    ("template", "level", "why"),
    [
        ("{{ level }}{{ completion }}", None, "an expression in it is null for this row"),
        ("{{ other }}", "easy", "'other' is undefined"),
        ("{{ completion.__class__ }}", "easy", "access to attribute '__class__' of 'str' object is unsafe"),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
            "easy",
            "takes too long",
        ),
    ],
)
def test_a_row_that_cannot_fill_the_prompt_stops_the_run(template: str, level: str | None, why: str) -> None:
    with endpoint(by_level) as served, pytest.raises(Refused) as stopped:
        scores(served.url, (["1+1="], ["2"], {"level": [level]}), prompt=template)
    assert "reward judge: a row cannot fill the judge's prompt" in str(stopped.value)
    assert why in str(stopped.value)
    assert "'1+1='" in str(stopped.value)
    assert served.asked == []


@pytest.mark.usefixtures("short_limit")
def test_a_pattern_that_takes_too_long_is_refused() -> None:
    with endpoint(lambda body: "a" * 40 + "!") as served, pytest.raises(Refused, match="score exceeds its limits"):
        scores(served.url, score="^(a+)+$")


@contextmanager
def judged(answer: Say, **changes: Any) -> Iterator[Any]:
    """Rewards of which the second one is a judge that runs meanwhile."""
    with endpoint(answer) as served:
        judge = reward(served.url, prompt="{{ question }} {{ completion }} {{ solution }}", **changes)
        planned = planned_reward(served.url, kind="judge", name="judge", weight=0.5, kwargs=dict(judge.kwargs))
        digits = planned_reward("regex_match", name="digits", kwargs={"pattern": r"\d\d", "full": False})
        yield served, [digits, planned]


def environment(cache: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(cache.parents[1]), VARIABLE: KEY}


def _length(body: Request) -> str:
    return str(len(asked_text(body)) % 11)


@pytest.mark.stack
def test_a_training_and_its_evaluation_have_the_judges_scores(
    make_plan: Callable[..., Changes], held_out: Callable[..., Changes], trained: Say, cache: Path
) -> None:
    with judged(_length) as (served, rewards):
        changes = {"rewards": rewards, "evaluation": held_out()}
        plan = make_plan("lora", arguments={"max_steps": 2, "reward_weights": [1.0, 0.5]}, **changes)
        done = trained(plan, environ=environment(cache))
        assert done.exit_code == 0, done.output
        asked = len(served.asked)
        assert 11 <= asked <= 2 * 16 + 2 * 11
        steps = events(done.folder, "step")
        assert [step["judge/failed"] for step in steps] == [0.0, 0.0]
        assert all(0 <= step["rewards/judge/mean"] <= 1 for step in steps)
        again = trained(plan, environ=environment(cache))
        assert again.exit_code == 0, again.output
        assert len(served.asked) == asked, "a second run pays nothing"
        assert [step["rewards/judge/mean"] for step in events(again.folder, "step")] == [
            step["rewards/judge/mean"] for step in steps
        ]
    before, after = events(done.folder, "evaluation")
    assert 0 <= before["rewards"]["judge"] <= 1
    assert "without_score" not in after
    for path in (path for path in done.folder.rglob("*") if path.is_file()):
        assert KEY.encode() not in path.read_bytes(), path


@pytest.mark.stack
@pytest.mark.parametrize(("answer", "failed", "code"), [(_length, 0.0, 0), (lambda _: "junk", 1.0, 3)])
def test_a_judge_of_one_source_fails_in_its_own_rows_alone(
    answer: Say, failed: float, code: int, make_plan: Callable[..., Changes], trained: Say, cache: Path, tmp_path: Path
) -> None:
    sources = []
    for name in ("math", "code"):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps({"question": f"{one}+{one}", "answer": "1"}) + "\n" for one in range(20)))
        own = {"columns": {"solution": "{{ answer }}", "source_name": name}, "source_name": name, "weight": 1.0}
        sources.append(planned_data(path, sha256=file_sha256(path), **own))
    with judged(answer) as (_, rewards):
        rewards[1]["not_of"] = ["code"]
        arguments = {"max_steps": 2, "reward_weights": [1.0, 0.5], "shuffle_dataset": False}
        plan = make_plan("lora", arguments=arguments, data=sources[0], sources=sources, rewards=rewards)
        plan["expect"]["arguments"] = {}
        done = trained(plan, environ=environment(cache))
    assert done.exit_code == code, done.output
    assert {step["judge/failed"] for step in events(done.folder, "step")} == {failed}


@pytest.mark.stack
def test_some_missing_scores_are_a_note_and_compare_no_evaluation(
    make_plan: Callable[..., Changes], held_out: Callable[..., Changes], trained: Say, cache: Path
) -> None:
    count = iter(range(10_000))
    lacks = lambda body: "I like it" if next(count) % 4 == 0 else _length(body)  # noqa: E731
    with judged(lacks, concurrency=1) as (_, rewards):
        arguments = {"max_steps": 2, "reward_weights": [1.0, 0.5]}
        plan = make_plan("lora", arguments=arguments, rewards=rewards, evaluation=held_out())
        plan["guards"]["failing_judge_share"] = 0.99
        done = trained(plan, environ=environment(cache))
    assert done.exit_code == 0, done.output
    (guard,) = done.record["guards"]
    assert (guard["name"], guard["action"]) == ("failing_judge", "note")
    assert "note: failing_judge at step 1: the judge gave no score to " in done.output
    before, after = events(done.folder, "evaluation")
    assert before["without_score"] > 0
    assert "change" not in after


@pytest.mark.stack
def test_a_judge_that_is_down_stops_two_processes_at_the_first_step(
    make_plan: Callable[..., Changes], held_out: Callable[..., Changes], trained: Say, cache: Path
) -> None:
    with judged(failing(503, b"busy")) as (_, rewards):
        arguments = {"per_device_train_batch_size": 8, "reward_weights": [1.0, 0.5]}
        plan = for_two(make_plan("lora", arguments=arguments, rewards=rewards, evaluation=held_out()))
        done = trained(plan, environ=environment(cache), ranks=2)
    record, output = done.record, done.output
    assert (record["status"], record["exit_code"]) == ("stopped", 3), output
    assert record["guards"][0]["name"] == "failing_judge"
    assert record["guards"][0]["value"] == 1.0
    assert "the judge gave no score to 100 % of the completions" in output
    assert "reward judge: no score for " in output
    assert "HTTP 503: busy" in output
    (before,) = events(done.folder, "evaluation")
    assert before["without_score"] == 11
    assert "11 completions without a judge's score, so not compared" in output
