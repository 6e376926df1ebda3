"""GEN008: which addresses TRL's client can call, and what it does with the others."""

from importlib.util import find_spec

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("address", ["http://127.0.0.1:{port}", "127.0.0.1:{port}"])
def test_a_url_is_called(library: Library, address: str) -> None:
    assert library.call("in_vllm.ask_server", address=address).result == "answered"


@pytest.mark.parametrize(
    ("address", "key"),
    [("localhost:{port}", "base_url"), ("http://127.0.0.1", "host"), ("127.0.0.1:{port}", "host")],
)
def test_an_address_that_cannot_be_called_is_taken_for_a_server_that_is_not_up(
    library: Library, address: str, key: str
) -> None:
    answer = library.call("in_vllm.ask_server", address=address, key=key)
    assert (answer.raised, "can't be reached at" in answer.text) == ("ConnectionError", True)


def test_a_host_is_called(library: Library) -> None:
    assert library.call("in_vllm.ask_server", address="127.0.0.1", key="host").result == "answered"


@pytest.mark.parametrize("end", ["/", "/v1", "/v1/"])
def test_a_path_at_the_end_is_asked_for_without_end(library: Library, end: str) -> None:
    assert library.call("in_vllm.ask_server", address=f"http://127.0.0.1:{{port}}{end}").result == "asks on"


def test_weights_are_not_handed_over_from_the_cpu(library: Library) -> None:
    answer = library.call("in_vllm.ask_server", address="http://127.0.0.1:{port}", device="cpu")
    assert (answer.raised, "needs a CUDA device" in answer.text) == ("NotImplementedError", True)


def test_without_requests_the_client_raises(library: Library) -> None:
    if find_spec("requests") is not None:
        pytest.skip("requests is installed here")
    answer = library.call("in_vllm.start_vllm", mode="server")
    assert (answer.stage, answer.raised) == ("trainer", "ImportError")
    assert "requests is not installed" in answer.text
