"""Holds a port of this machine for the rendezvous of a job, and prints an address of the machine and the port.

    python -P worker/part.py survival.held_port [INTERFACE]

The port is bound until this process is killed, but nothing listens on it. The kernel then gives it to no other process
that asks for a free port, and lets torch's store listen on it, because both set SO_REUSEADDR. A port that was free, but
is not held, can go to another job of the machine before torch listens.
"""

import contextlib
import fcntl
import signal
import socket
import struct
from collections.abc import Sequence

from grpo_recipes.contract.host.processes import ASKING

_GET_ADDRESS = 0x8915  # SIOCGIFADDR of Linux


def hold_port() -> socket.socket:
    """Binds a port that no other process has."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("", 0))
    return held


def address_of(interface: str) -> str:
    """Returns the IPv4 address of a network interface. Raises OSError if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        request = struct.pack("256s", interface.encode()[:15])
        return socket.inet_ntoa(fcntl.ioctl(asking, _GET_ADDRESS, request)[20:24])


def main(arguments: Sequence[str]) -> None:
    """Prints "PORT ADDRESS", without an address if the interface has none, and waits to be killed."""
    for number in ASKING:
        signal.signal(number, signal.SIG_IGN)
    with hold_port() as held:
        address = ""
        with contextlib.suppress(OSError):
            address = address_of(arguments[0]) if arguments else ""
        print(held.getsockname()[1], address, flush=True)
        while True:
            signal.pause()
