"""What the machines of a run say to each other before they train, and over which network interface."""

import contextlib
import fcntl
import json
import os
import socket
import struct
import time
from typing import Any

GLOO, NCCL = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"
_SIOCGIFADDR = 0x8915  # linux/sockios.h
_NAME_BYTES = 256
_LONGEST = 1 << 16


def line_of(content: dict[str, Any]) -> bytes:
    """One line of JSON."""
    return f"{json.dumps(content)}\n".encode()


def send_line(connection: socket.socket, content: dict[str, Any]) -> None:
    """Sends one line of JSON. Raises OSError."""
    connection.sendall(line_of(content))


def receive_line(connection: socket.socket, within_s: float) -> dict[str, Any]:
    """The other side's line of JSON, all of it within so many seconds. Raises ValueError for another, OSError for none.

    A line that comes a byte at a time is given no more than that.
    """
    said, give_up = b"", time.monotonic() + within_s
    while not said.endswith(b"\n"):
        left_s = give_up - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        connection.settimeout(left_s)
        seen = connection.recv(4096, socket.MSG_PEEK)
        if not seen:
            raise ConnectionResetError("the connection was closed")
        more = connection.recv(seen.find(b"\n") + 1 or len(seen))  # what follows the line is the next one
        said += more
        if len(said) > _LONGEST:
            raise ValueError("the line is too long")
    try:
        content = json.loads(said)
    except RecursionError:
        raise ValueError("the line is too deep") from None
    if not isinstance(content, dict):
        raise ValueError("the line is no object")
    return content


def name_interface(connection: socket.socket) -> None:
    """Makes the interface of a connection that of gloo and NCCL, for this process and what it becomes.

    Without it gloo takes the address that the host's own name stands for, which on Debian is 127.0.1.1, and NCCL the
    first interface that is neither loopback nor docker's, such as a bridge of virtual machines: no other machine
    reaches these. What the environment says already is kept. InfiniBand carries NCCL's data all the same.
    """
    name = interface_of(connection.getsockname()[0])
    if name is not None:
        os.environ.setdefault(GLOO, name)
        os.environ.setdefault(NCCL, f"={name}")  # that one alone, not all whose names begin so


def interface_of(address: str) -> str | None:
    """The name of the interface that has this IPv4 address, None without one and for other addresses."""
    wanted = address.removeprefix("::ffff:")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has no address
                request = struct.pack(f"{_NAME_BYTES}s", name.encode()[:15])
                answer = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, request)
                if socket.inet_ntoa(answer[20:24]) == wanted:
                    return name
    return None
