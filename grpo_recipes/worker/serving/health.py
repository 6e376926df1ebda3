"""Queries a vLLM server's health and models, finds its address and port, and checks that it serves the right model."""

import contextlib
import http.client
import json
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Collection
from pathlib import Path
from typing import Any

from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.planned import model_of_sampler
from grpo_recipes.worker._shared.replacing import Refused

# Queries about a vLLM server. They never use a proxy.
_TIMEOUT_S = 5.0
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(url: str, path: str) -> tuple[int, bytes]:
    """Returns status and body of a GET; redirects are followed. Raises OSError if nothing answers."""
    try:
        with _DIRECT.open(url.rstrip("/") + path, timeout=_TIMEOUT_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, b""
    except http.client.HTTPException as problem:
        raise OSError(f"{type(problem).__name__}: {problem}") from problem


def is_healthy(url: str) -> bool:
    """Whether the server reports that it is healthy."""
    try:
        return get(url, "/health")[0] == 200
    except OSError:
        return False


def models(url: str) -> list[dict[str, Any]] | None:
    """Returns the server's models with id, root and max_model_len; None if it does not list models.

    TRL's own server, up to 1.10, does not. Raises OSError if nothing answers.
    """
    status, body = get(url, "/v1/models")
    if status != 200:
        return None
    try:
        listed = json.loads(body)["data"]
    except (ValueError, KeyError, TypeError):
        return None
    return [model for model in listed if isinstance(model, dict)] if isinstance(listed, list) else None


HOST = "127.0.0.1"


def address_towards(other: str) -> str:
    """Returns this machine's address on the route to a name or address. Raises ServerProblem."""
    try:
        family, _, _, _, endpoint = socket.getaddrinfo(other, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(endpoint)  # sends nothing
            address: str = probe.getsockname()[0]
    except OSError as problem:
        raise ServerProblem.of(
            f"the machine {other} cannot be reached from this one",
            because=str(problem.strerror or problem),
            fix="use a name or an address that all machines of the run can resolve",
        ) from problem
    return address


def is_free(port: int, host: str = HOST) -> bool:
    """Whether a server can listen on a port of this machine."""
    try:
        _listening(host, port).close()
    except OSError:
        return False
    return True


def free_port(host: str = HOST) -> int:
    """Returns a port that is free now at one of this machine's addresses, or at all of them for ""."""
    with _listening(host, 0) as listener:
        port: int = listener.getsockname()[1]
    return port


def _listening(host: str, port: int) -> socket.socket:
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


def holder(port: int) -> str | None:
    """Returns the process that listens on a port, as "process 4711 (python server.py)"; None if it is not visible."""
    import psutil  # the folder's own errors must also appear where the training stack is not installed

    with contextlib.suppress(psutil.Error):
        for entry in psutil.net_connections("tcp"):
            if entry.status == psutil.CONN_LISTEN and entry.laddr.port == port and entry.pid is not None:
                words = " ".join(psutil.Process(entry.pid).cmdline())
                return f"process {entry.pid} ({words if len(words) <= 80 else words[:77] + '...'})"
    return None


class ServerProblem(Mistake):
    """The server did not start, or died too often. The run exits with 1."""


class ServerLost(Exception):
    """The server on a separate machine was lost. The run exits with 75, and can be resumed with a new server."""


URL = "GRPO_RUN_VLLM_URL"
_ASKED_EVERY_S = 1.0
# Seconds for a server that just answered.
_UP_AGAIN_S = 60.0
# Two models with equal values for these keys can load each other's weights.
_SHAPE = ("model_type", "architectures", "hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")


def server_arguments(plan: Plan, fields: Collection[str]) -> dict[str, Any]:
    """Returns the arguments of GRPOConfig for the run's own server, {} without one. fields: those of the release.

    Raises Refused if the server was not started. The port of the process group for the weight sync is a free one, so
    two runs on one machine do not collide.
    """
    if plan.vllm is None or plan.vllm.server is None:
        return {}
    url = os.environ.get(URL)
    if url is None:
        raise Refused.of("no vLLM server was started", because=f"{URL} is not set", fix="start with launch.sh")
    host, _, port = url.rpartition("/")[2].rpartition(":")
    named: dict[str, Any] = {"vllm_server_timeout": _UP_AGAIN_S}
    if "vllm_server_base_url" in fields:
        named["vllm_server_base_url"] = url
    else:
        named |= {"vllm_server_host": host, "vllm_server_port": int(port)}
    if "vllm_group_port" in fields:
        named["vllm_group_port"] = free_port("")
    return {name: value for name, value in named.items() if name not in plan.arguments.GRPOConfig}


def check_other_server(plan: Plan, arguments: Any, folder: Path) -> str | None:
    """Returns a line about a server outside of the run, None without one. arguments: the GRPOConfig.

    TRL uses whatever model the server has, and sends it the weights. Raises Refused if nothing answers within
    vllm_server_timeout, if the server has a different model, or if its maximum length is too short.
    """
    if plan.vllm is None or plan.vllm.mode != "server" or plan.vllm.server is not None:
        return None
    url = getattr(arguments, "vllm_server_base_url", None)
    url = url or f"http://{arguments.vllm_server_host}:{arguments.vllm_server_port}"
    _wait(url, float(arguments.vllm_server_timeout))
    listed = models(url)
    if not listed:
        return f"vLLM server at {url}, which does not report its model"
    first = listed[0]
    _refuse_another_model(url, first, model_of_sampler(plan, folder)[0])
    length, longest = first.get("max_model_len"), arguments.max_completion_length
    if isinstance(length, int) and length <= longest:
        raise Refused.of(
            f"the vLLM server at {url} ends completions after at most {length - 1} tokens",
            because=f"its --max-model-len is {length}, max_completion_length is {longest}",
            fix="start it with a larger --max-model-len, or use a smaller max_completion_length",
        )
    return f"vLLM server at {url} serves {first.get('id')}, at most {length} tokens"


def _wait(url: str, timeout_s: float) -> None:
    give_up = time.monotonic() + timeout_s
    while not is_healthy(url):
        if time.monotonic() > give_up:
            raise Refused.of(
                f"no vLLM server answers at {url}",
                because=f"its /health did not answer for {timeout_s:g} seconds",
                fix="start it first, or remove its address, and the run starts a server itself",
            )
        time.sleep(_ASKED_EVERY_S)


def _refuse_another_model(url: str, served: dict[str, Any], wanted: str) -> None:
    """Raises Refused if the server's model differs: by its configuration if readable, otherwise by name."""
    names = [str(served[key]) for key in ("root", "id") if served.get(key)]
    ours = _shape(wanted)
    theirs = next((shape for name in names if (shape := _shape(name)) is not None), None)
    if ours is not None and theirs is not None:
        because = next((f"{key} is {theirs[key]}, not {ours[key]}" for key in _SHAPE if theirs[key] != ours[key]), None)
    else:
        is_named = any(_last(name) == _last(wanted) for name in names)
        because = None if is_named else "a server accepts only weights of the model that it was started with"
    if because is not None:
        raise Refused.of(
            f"the vLLM server at {url} serves {names[0] if names else 'nothing'}, the run trains {wanted}",
            because=because,
            fix=f"vllm serve {wanted}, or let the run start its server",
        )


def _shape(name: str) -> dict[str, Any] | None:
    """Returns the sizes in the config.json of a folder, None if it cannot be read here."""
    try:
        content = json.loads((Path(name) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return {key: content.get(key) for key in _SHAPE} if isinstance(content, dict) else None


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].casefold()
