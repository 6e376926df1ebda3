"""The port of the server: a free one, or who has the one that was asked for."""

import contextlib
import os
import socket
from pathlib import Path

HOST = "127.0.0.1"
_LISTENS = "0A"


def is_free(port: int) -> bool:
    """Whether a server can listen on a port of this machine."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as one:
        one.bind((HOST, 0))
        port: int = one.getsockname()[1]
    return port


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
