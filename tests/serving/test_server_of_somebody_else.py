"""A server at an address is asked what it serves before the trainer is built, since TRL takes whatever it has."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from serving_programs import plan_with_server, planned_server

from grpo_recipes.contract.plan import Model, Plan
from grpo_recipes.contract.plan_machine import World
from grpo_recipes.contract.plan_sections import Vllm
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.serving.health import URL, check_other_server, server_arguments

WORLD = World("local", 1, 1, "cpu", "single")
FIELDS = ("vllm_server_base_url", "vllm_server_host", "vllm_server_port", "vllm_group_port")


@contextmanager
def answering(answers: dict[str, object]) -> Iterator[str]:
    """The address of a server that answers these paths in JSON, a text beginning with / as a redirect."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path)
            self.send_response(404 if answer is None else 307 if isinstance(answer, str) else 200)
            if isinstance(answer, str):
                self.send_header("Location", answer)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def serving(name: str, length: int | None = 512) -> dict[str, object]:
    listed = {"id": "policy", "root": name, "max_model_len": length}
    return {"/health": {}, "/v1/models": {"data": [listed]}}


def plan(model: str = "Qwen/Qwen2-0.5B-Instruct") -> Plan:
    """A plan that asks a server at an address."""
    return plan_with_server(WORLD, planned_server(), model=Model("hub", model), vllm=Vllm("server", "float32"))


def arguments(url: str, **changes: object) -> SimpleNamespace:
    keywords = {"vllm_server_base_url": url, "vllm_server_timeout": 0.0, "max_completion_length": 64, **changes}
    return SimpleNamespace(**keywords)


def model_folder(folder: Path, **sizes: object) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen2", "hidden_size": 64, **sizes}))
    return str(folder)


@pytest.mark.parametrize(
    "served",
    ["Qwen/Qwen2-0.5B-Instruct", "/data/qwen2-0.5b-instruct/"],
    ids=["the same name", "a copy of the same last name"],
)
def test_a_server_of_the_model_is_taken(served: str, tmp_path: Path) -> None:
    with answering(serving(served)) as url:
        assert (
            check_other_server(plan(), arguments(url), tmp_path)
            == f"vLLM server at {url} serves policy, at most 512 tokens"
        )


def test_a_server_without_a_list_is_taken_as_it_is(tmp_path: Path) -> None:
    with answering({"/health": "/health/", "/health/": {"status": "ok"}}) as url:  # TRL's own, up to 1.10
        assert "does not report its model" in str(check_other_server(plan(), arguments(url), tmp_path))


def test_a_folder_of_another_name_is_known_by_its_sizes(tmp_path: Path) -> None:
    ours, copy = model_folder(tmp_path / "ours"), model_folder(tmp_path / "copy")
    other = model_folder(tmp_path / "other", hidden_size=128)
    with answering(serving(copy)) as url:
        assert check_other_server(plan(ours), arguments(url), tmp_path)
    with answering(serving(other)) as url, pytest.raises(Refused, match="hidden_size is 128, not 64"):
        check_other_server(plan(ours), arguments(url), tmp_path)


def test_a_server_of_another_model_stops_the_run(tmp_path: Path) -> None:
    with (
        answering(serving("Qwen/Qwen2.5-7B")) as url,
        pytest.raises(Refused, match=r"serves Qwen/Qwen2\.5-7B, the run"),
    ):
        check_other_server(plan(), arguments(url), tmp_path)


def test_a_server_that_is_too_short_for_a_completion_stops_the_run(tmp_path: Path) -> None:
    with (
        answering(serving("Qwen/Qwen2-0.5B-Instruct", 64)) as url,
        pytest.raises(Refused, match="at most 63 tokens"),
    ):
        check_other_server(plan(), arguments(url), tmp_path)


def test_an_address_where_nobody_answers_stops_the_run(tmp_path: Path) -> None:
    with answering({}) as url:
        pass
    with pytest.raises(Refused, match=r"no vLLM server answers at http://127\.0\.0\.1"):
        check_other_server(plan(), arguments(url), tmp_path)


def test_host_and_port_are_an_address_too(tmp_path: Path) -> None:
    with answering(serving("Qwen/Qwen2-0.5B-Instruct")) as url:
        host, _, port = url.rpartition("/")[2].partition(":")
        given = arguments(url, vllm_server_base_url=None, vllm_server_host=host, vllm_server_port=int(port))
        assert check_other_server(plan(), given, tmp_path)


def test_nobody_is_asked_where_no_server_of_somebody_else_generates(tmp_path: Path) -> None:
    own = plan_with_server(WORLD, planned_server())
    assert check_other_server(own, arguments("http://127.0.0.1:1"), tmp_path) is None
    none = plan_with_server(WORLD, planned_server(), vllm=None)
    assert check_other_server(none, arguments("http://127.0.0.1:1"), tmp_path) is None


def test_the_trainer_is_told_where_its_own_server_is(monkeypatch: pytest.MonkeyPatch) -> None:
    own = plan_with_server(WORLD, planned_server())
    monkeypatch.setenv(URL, "http://127.0.0.1:8011")
    told = server_arguments(own, FIELDS)
    assert told["vllm_server_base_url"] == "http://127.0.0.1:8011"
    assert 0 < told["vllm_group_port"] < 65536
    older = server_arguments(own, FIELDS[1:3])
    assert (older["vllm_server_host"], older["vllm_server_port"]) == ("127.0.0.1", 8011)
    assert server_arguments(plan(), FIELDS) == {}


def test_a_trainer_without_its_server_says_how_it_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(URL, raising=False)
    with pytest.raises(Refused, match=r"start with launch\.sh"):
        server_arguments(plan_with_server(WORLD, planned_server()), FIELDS)
