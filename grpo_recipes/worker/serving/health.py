"""What a vLLM server answers about itself, its port, and the errors that end a run."""

import contextlib
import http.client
import json
import os
import socket
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from grpo_recipes.contract.findings.findings_text import Mistake

# What a vLLM server answers about itself. No proxy is asked on the way.


_TIMEOUT_S = 5.0
_REDIRECTS = (301, 302, 307, 308)


def get(url: str, path: str) -> tuple[int, bytes]:
    """Status and body of a GET; one redirect on the same server is followed. Raises OSError when nobody answers."""
    server = urlsplit(url)
    status, body, place = _asked(server, server.path.rstrip("/") + path)
    if status in _REDIRECTS and place is not None:
        # Up to TRL 1.10 the path of its server's health ends with a slash.
        status, body, _ = _asked(server, urlsplit(place).path)
    return status, body


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


def _asked(server: SplitResult, path: str) -> tuple[int, bytes, str | None]:
    """Status, body and the place that it points to."""
    kind = http.client.HTTPSConnection if server.scheme == "https" else http.client.HTTPConnection
    connection = kind(server.netloc, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read(), response.getheader("Location")
    except http.client.HTTPException as problem:
        raise OSError(f"{type(problem).__name__}: {problem}") from problem
    finally:
        connection.close()


# The port of the server: a free one, or who has the one that was asked for.


HOST = "127.0.0.1"
_LISTENS = "0A"


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
    with _socket_for(host) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((host, port))
        except OSError:
            return False
    return True


def free_port(host: str = HOST) -> int:
    """A port that nobody listens on now at one of this machine's addresses, at none of them for ""."""
    with _socket_for(host) as one:
        one.bind((host, 0))
        port: int = one.getsockname()[1]
    return port


def _socket_for(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)


def holder(port: int) -> str | None:
    """The process that listens on a port, as "process 4711 (python server.py)"; None where that cannot be seen."""
    inodes = _listening(port)
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for link in (folder / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(link) in inodes:
                        words = (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip()
                        return f"process {folder.name} ({words if len(words) <= 80 else words[:77] + '...'})"
    return None


def _listening(port: int) -> set[str]:
    """What /proc calls the sockets that listen on a port: "socket:[12345]"."""
    found: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                columns = line.split()
                if columns[3] == _LISTENS and int(columns[1].rpartition(":")[2], 16) == port:
                    found.add(f"socket:[{columns[9]}]")
    return found


# The exceptions that end a run for its vLLM server's sake.


class ServerProblem(Mistake):
    """The server does not come up, or died too often: what, because of what, the way out. The run exits with 1."""


class ServerLost(Exception):
    """The server went away that has a machine of its own. The run exits with 75, and can be resumed with a new one."""
