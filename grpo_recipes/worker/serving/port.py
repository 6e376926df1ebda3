"""The port of the server: a free one, or who has the one that was asked for."""

import contextlib
import os
import socket
from pathlib import Path

from grpo_recipes.worker.serving.problem import ServerProblem

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
