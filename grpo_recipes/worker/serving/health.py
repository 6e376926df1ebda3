"""What a vLLM server answers about itself, where it is, whether it is the right one, and the errors that end a run."""

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
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker._shared.planned import sampled_model

# What a vLLM server answers about itself. No proxy is asked on the way.


_TIMEOUT_S = 5.0
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(url: str, path: str) -> tuple[int, bytes]:
    """Status and body of a GET; redirects are followed. Raises OSError when nobody answers."""
    try:
        with _DIRECT.open(url.rstrip("/") + path, timeout=_TIMEOUT_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, b""
    except http.client.HTTPException as problem:
        raise OSError(f"{type(problem).__name__}: {problem}") from problem


def is_healthy(url: str) -> bool:
    """Whether the server says that it can work."""
    try:
        return get(url, "/health")[0] == 200
    except OSError:
        return False


def models(url: str) -> list[dict[str, Any]] | None:
    """What the server lists as its models: id, root, max_model_len. None for one that has no such list.

    TRL's own server, up to 1.10, has none. Raises OSError when nobody answers.
    """
    status, body = get(url, "/v1/models")
    if status != 200:
        return None
    try:
        listed = json.loads(body)["data"]
    except (ValueError, KeyError, TypeError):
        return None
    return [model for model in listed if isinstance(model, dict)] if isinstance(listed, list) else None


# The port of the server: a free one, or who has the one that was asked for.


HOST = "127.0.0.1"


def address_towards(other: str) -> str:
    """The address of this machine that faces another one, which has this name or address. Raises ServerProblem."""
    try:
        family, _, _, _, place = socket.getaddrinfo(other, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            one.connect(place)  # sends nothing
            address: str = one.getsockname()[0]
    except OSError as problem:
        raise ServerProblem.of(
            f"the machine {other} cannot be reached from this one",
            because=str(problem.strerror or problem),
            fix="a name or an address that all machines of the run know",
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
    """A port that nobody listens on now at one of this machine's addresses, at none of them for ""."""
    with _listening(host, 0) as one:
        port: int = one.getsockname()[1]
    return port


def _listening(host: str, port: int) -> socket.socket:
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


def holder(port: int) -> str | None:
    """The process that listens on a port, as "process 4711 (python server.py)"; None where that cannot be seen."""
    import psutil  # a run folder says what is wrong with it also where the training stack is not installed

    with contextlib.suppress(psutil.Error):
        for one in psutil.net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN and one.laddr.port == port and one.pid is not None:
                words = " ".join(psutil.Process(one.pid).cmdline())
                return f"process {one.pid} ({words if len(words) <= 80 else words[:77] + '...'})"
    return None


# The exceptions that end a run for its vLLM server's sake.


class ServerProblem(Mistake):
    """The server does not come up, or died too often: what, because of what, the way out. The run exits with 1."""


class ServerLost(Exception):
    """A server on its own machine went away. The run exits with 75, and can be resumed with a new server."""


# Where the vLLM server of a training is, and whether a server that somebody else runs is the right one.


URL = "GRPO_RUN_VLLM_URL"
_ASKED_EVERY_S = 1.0
# It was up a moment ago.
_UP_AGAIN_S = 60.0
# What two models have in common whose weights fit into each other.
_SHAPE = ("model_type", "architectures", "hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")


def server_arguments(plan: Plan, fields: Collection[str]) -> dict[str, Any]:
    """The arguments of GRPOConfig that name the run's own server, {} without one. fields: what the release has.

    Raises Refused when it was not started. The port of the group in which weights are handed over is a free one, so
    that two runs on one machine do not meet.
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
    """What a server that the run did not start serves, None without one. arguments: the GRPOConfig.

    TRL accepts any model of the server, and sends it the weights. Raises Refused if the server does not answer within
    vllm_server_timeout, or serves a different model or one that is too short for a completion.
    """
    if plan.vllm is None or plan.vllm.mode != "server" or plan.vllm.server is not None:
        return None
    url = getattr(arguments, "vllm_server_base_url", None)
    url = url or f"http://{arguments.vllm_server_host}:{arguments.vllm_server_port}"
    _wait(url, float(arguments.vllm_server_timeout))
    listed = models(url)
    if not listed:
        return f"vLLM server at {url}, which does not say what it serves"
    first = listed[0]
    _refuse_another_model(url, first, sampled_model(plan, folder)[0])
    length, longest = first.get("max_model_len"), arguments.max_completion_length
    if isinstance(length, int) and length <= longest:
        raise Refused.of(
            f"the vLLM server at {url} ends a completion after {length - 1} tokens or less",
            because=f"its --max-model-len is {length}, max_completion_length is {longest}",
            fix="start it with more, or with a smaller max_completion_length here",
        )
    return f"vLLM server at {url} serves {first.get('id')}, {length} tokens at most"


def _wait(url: str, timeout_s: float) -> None:
    give_up = time.monotonic() + timeout_s
    while not is_healthy(url):
        if time.monotonic() > give_up:
            raise Refused.of(
                f"no vLLM server answers at {url}",
                because=f"it was asked for its health for {timeout_s:g} seconds",
                fix="start it first, or leave its address out: then the run starts one itself",
            )
        time.sleep(_ASKED_EVERY_S)


def _refuse_another_model(url: str, served: dict[str, Any], wanted: str) -> None:
    """A server may call the model anything and have it anywhere: what it is made of decides, where that can be read."""
    names = [str(served[key]) for key in ("root", "id") if served.get(key)]
    ours = _shape(wanted)
    theirs = next((shape for name in names if (shape := _shape(name)) is not None), None)
    if ours is not None and theirs is not None:
        because = next((f"{key} is {theirs[key]}, not {ours[key]}" for key in _SHAPE if theirs[key] != ours[key]), None)
    else:
        is_named = any(_last(name) == _last(wanted) for name in names)
        because = None if is_named else "a server takes the weights of the model that it was started with, no others"
    if because is not None:
        raise Refused.of(
            f"the vLLM server at {url} serves {names[0] if names else 'nothing'}, the run trains {wanted}",
            because=because,
            fix=f"vllm serve {wanted}, or let the run start its server",
        )


def _shape(name: str) -> dict[str, Any] | None:
    """The sizes in the config.json of a folder, None where it cannot be read here."""
    try:
        content = json.loads((Path(name) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return {key: content.get(key) for key in _SHAPE} if isinstance(content, dict) else None


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].casefold()
