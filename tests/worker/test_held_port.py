"""The port of a job's rendezvous goes to no other process before torch listens on it."""

import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from grpo_recipes.worker.survival.held_port import address_of, hold_port

ROOT = Path(__file__).parents[2]
PART = ROOT / "grpo_recipes" / "worker" / "part.py"


def test_a_held_port_is_given_to_nobody_else() -> None:
    with hold_port() as held:
        port = held.getsockname()[1]
        others = [hold_port() for _ in range(400)]
        ports = {other.getsockname()[1] for other in others}
        for other in others:
            other.close()
        assert len(ports) == 400 and port not in ports
        with socket.socket() as stranger, pytest.raises(OSError, match="Address already in use"):
            stranger.bind(("", port))


def test_who_knows_the_number_can_listen_on_it() -> None:
    with hold_port() as held, socket.create_server(("", held.getsockname()[1])) as server:
        client = threading.Thread(target=lambda: socket.create_connection(server.getsockname()).close())
        client.start()
        server.accept()[0].close()
        client.join()


@pytest.mark.stack
@pytest.mark.parametrize("use_libuv", [True, False])
def test_the_store_of_torch_listens_on_a_held_port(use_libuv: bool) -> None:
    from torch.distributed import TCPStore

    with hold_port() as held:
        port = held.getsockname()[1]
        store = TCPStore("127.0.0.1", port, 1, is_master=True, use_libuv=use_libuv)
        store.set("held", "yes")
        assert (store.port, store.get("held")) == (port, b"yes")


def test_an_interface_has_its_address() -> None:
    assert address_of("lo") == "127.0.0.1"
    with pytest.raises(OSError):
        address_of("none0")


@pytest.mark.processes
@pytest.mark.parametrize(("interface", "address"), [(["lo"], "127.0.0.1"), (["none0"], ""), ([], "")])
def test_the_job_s_script_gets_port_and_address_and_signals_do_not_end_it(interface: list[str], address: str) -> None:
    command = [sys.executable, "-P", str(PART), "survival.held_port", *interface]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        port, _, text = holder.stdout.readline().rstrip("\n").partition(" ")
        assert text == address
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            holder.send_signal(number)
        with socket.socket() as stranger, pytest.raises(OSError):
            stranger.bind(("", int(port)))
        assert holder.poll() is None
        holder.kill()
