"""What a vLLM server answers about itself, its port, and the errors that end a run."""

import contextlib
import http.client
import json
import socket
import urllib.error
import urllib.request
from typing import Any

from grpo_recipes.contract.findings.findings_text import Mistake

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
    """The server went away that has a machine of its own. The run exits with 75, and can be resumed with a new one."""
