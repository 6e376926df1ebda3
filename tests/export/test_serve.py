"""Requests of OpenAI's protocol are answered as `generate` answers, and refused where they would be misread."""

import http.client
import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from export_runs import RECIPE, command

from grpo_recipes.cli.commands.serve import model_request

SUMS = ["17+25=", "60+38=", "48+33="]
VALUES = {
    "training.max_steps": 2,
    "training.save_steps": 0,
    "evaluation": "null",
    "generation.stop": '["2"]',
    "dataset.system_prompt": "Add.",
}


@pytest.fixture(scope="module")
def run(warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model knows sums already; its answers end at a 2."""
    folder = tmp_path_factory.mktemp("runs") / "sums"
    done = command(warm_python, RECIPE, "--out", folder, *[f"--set={key}={value}" for key, value in VALUES.items()])
    assert done.code == 0, done.out + done.err
    return folder


@pytest.fixture(scope="module")
def port(warm_python: Path, run: Path) -> Iterator[int]:
    """Of a server that is ended as Ctrl-C ends it."""
    server = subprocess.Popen(
        [warm_python / "grpo-run", "serve", run, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    address = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/v1\n", server.stdout.readline())
    assert address is not None
    yield int(address[1])
    server.send_signal(signal.SIGINT)
    _, talk = server.communicate(timeout=120)
    assert server.returncode == 0
    assert "system      Add." in talk and "stops       '2'" in talk
    assert '"POST /v1/chat/completions HTTP/1.1" 200' in talk


def _said(port: int, body: Any, path: str = "/v1/chat/completions", **headers: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    content = None if body is None else json.dumps(body)
    headers = {"Content-Type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
    connection.request("GET" if body is None else "POST", path, content, headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def _asked(*texts: str, **more: Any) -> dict[str, Any]:
    return {"model": "any", "messages": [{"role": "user", "content": text} for text in texts], **more}


@pytest.mark.stack
def test_a_greedy_answer_is_that_of_generate(port: int, run: Path, warm_python: Path) -> None:
    ends = set()
    for prompt in SUMS:
        (row,) = command(warm_python, "generate", run, prompt, "--greedy", "--json").json()["rows"]
        status, answer = _said(port, _asked(prompt, temperature=0))
        assert status == 200, answer
        (choice,) = answer["choices"]
        assert choice["message"] == {"role": "assistant", "content": row["trained"]["completion"]}
        assert choice["finish_reason"] == "stop"
        assert answer["usage"]["completion_tokens"] == row["trained"]["tokens"]
        ends.add(row["trained"]["ended_by"])
    assert ends == {"stop", "eos"}


@pytest.mark.stack
def test_a_request_has_its_own_values(port: int) -> None:
    _, with_own = _said(port, _asked(SUMS[0], temperature=0))
    own = {"role": "system", "content": "Add."}
    body = _asked(SUMS[0], temperature=0)
    body["messages"].insert(0, own)
    assert _said(port, body)[1]["usage"] == with_own["usage"]
    body["messages"][0] = {"role": "system", "content": "Add these two."}
    assert _said(port, body)[1]["usage"]["prompt_tokens"] > with_own["usage"]["prompt_tokens"]
    _, cut = _said(port, _asked(SUMS[1], temperature=0, max_tokens=1))
    assert (cut["choices"][0]["finish_reason"], cut["usage"]["completion_tokens"]) == ("length", 1)
    drawn = {_said(port, _asked(SUMS[1], temperature=2))[1]["choices"][0]["message"]["content"] for _ in range(20)}
    assert len(drawn) > 1
    status, refused = _said(port, _asked(SUMS[0], max_tokens=510))
    assert status == 400
    assert re.fullmatch(
        r"the conversation has \d+ tokens; with 510 new ones at most 2 fit", refused["error"]["message"]
    )


@pytest.mark.stack
def test_only_this_machine_and_no_web_page_can_ask(port: int) -> None:
    assert _said(port, None, "/v1/models")[1]["data"][0]["id"] == "sums"
    assert _said(port, None, "/v1/models", Host="attacker.example")[0] == 403
    assert _said(port, _asked(SUMS[0]), Content_Type="text/plain")[0] == 400
    assert _said(port, None, "/")[0] == 404
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=10)


@pytest.mark.stack
def test_a_port_that_is_taken_is_named_before_the_model_is_loaded(run: Path, warm_python: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = command(warm_python, "serve", run, "--port", port)
    assert (done.code, done.out) == (2, "")
    assert f"cannot listen on 127.0.0.1:{port}" in done.err and "Address already in use" in done.err
    assert "fix: --port with a free number" in done.err


def linked(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


USER = {"role": "user", "content": "1+1="}


@pytest.mark.parametrize(
    ("body", "because"),
    [
        ([], "messages is not a list"),
        ({"messages": []}, "messages is not a list"),
        ({"messages": ["1+1="]}, "messages is not a list"),
        ({"messages": [{**USER, "role": "tool"}]}, "a role of system, user, assistant"),
        ({"messages": [{**USER, "content": 7}]}, "messages is not a list"),
        (
            {"messages": [{**USER, "content": [{"type": "image_url"}]}]},
            "each part of a message must be a text or an image_url",
        ),
        (
            {"messages": [{**USER, "content": [{"type": "image", "image": "/etc/passwd"}]}]},
            "each part of a message must be",
        ),
        *(
            (
                {"messages": [{**USER, "content": [linked(url)]}]},
                f"{url} is not fetched; send the image itself as data:image/",
            )
            for url in ("http://127.0.0.1:9/a.png", "file:///etc/passwd", "/etc/passwd", "data:image/png,7")
        ),
        ({"messages": [{**USER, "content": [linked("data:image/png;base64,7")]}]}, "an image_url is not base64"),
        ({"messages": [USER], "stop": ["4"]}, "stop is not supported; a request can set model, messages"),
        ({"messages": [USER], "stream": True}, "stream can only be false"),
        ({"messages": [USER], "n": 2}, "n only 1"),
        ({"messages": [USER], "temperature": -1}, "temperature is not a number from 0 to 2"),
        ({"messages": [USER], "temperature": True}, "temperature is not a number"),
        ({"messages": [USER], "top_p": 0}, "top_p is not a number"),
        ({"messages": [USER], "max_tokens": 0}, "max_tokens is not a number from 1"),
    ],
)
def test_a_request_that_cannot_be_answered_is_refused(body: Any, because: str) -> None:
    with pytest.raises(ValueError, match=re.escape(because)):
        model_request(body)


def test_what_a_request_leaves_out_is_the_recipes() -> None:
    of_text = {**USER, "content": [{"type": "text", "text": "1+"}, {"type": "text", "text": "1="}]}
    assert model_request({"messages": [of_text]}) == model_request({"messages": [USER]})
    assert model_request({"messages": [USER], "stream": False, "stop": None}) == {"messages": [USER], "sampling": {}}
    more = {"temperature": 0, "top_p": 0.5, "max_completion_tokens": 9, "user": "somebody"}
    asked = {"messages": [USER], "sampling": {"top_p": 0.5}, "greedy": True, "max_tokens": 9}
    assert model_request({"messages": [USER], **more}) == asked
