"""Simulates two machines: network namespaces with a virtual cable. Needs Linux and root; else both are this machine."""

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Network:
    """A machine's network. prefix: of commands that run there. address: of the machine."""

    prefix: tuple[str, ...] = ()
    address: str = "127.0.0.1"


@contextmanager
def two_networks() -> Iterator[tuple[Network, Network]]:
    """Yields networks of two machines that reach only each other; this machine's if namespaces are not allowed."""
    mark = uuid.uuid4().hex[:8]
    names = (f"a{mark}", f"b{mark}")
    if os.geteuid() != 0 or shutil.which("ip") is None or not _ip("netns", "add", names[0]):
        yield Network(), Network()
        return
    try:
        _ip("netns", "add", names[1])
        _ip("link", "add", names[0], "netns", names[0], "type", "veth", "peer", "name", names[1], "netns", names[1])
        machines = [Network(("ip", "netns", "exec", name), f"10.79.0.{last}") for last, name in enumerate(names, 1)]
        for name, machine in zip(names, machines, strict=True):
            _ip("-n", name, "addr", "add", f"{machine.address}/24", "dev", name)
            for link in ("lo", name):
                _ip("-n", name, "link", "set", link, "up")
        yield machines[0], machines[1]
    finally:
        for name in names:
            _ip("netns", "del", name)


def _ip(*words: str) -> bool:
    return subprocess.run(["ip", *words], stderr=subprocess.DEVNULL).returncode == 0
