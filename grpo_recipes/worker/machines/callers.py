"""Who calls a port: any number of them at once, none of whom is waited for. What a stranger can cost is bounded."""

import json
import selectors
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from grpo_recipes.worker.machines.network import line_of
from grpo_recipes.worker.machines.seal import drawn

_MOST = 64  # that have not shown who they are; for one more the oldest leaves, of the address that has the most
_LONGEST = 4096  # bytes of what a machine says of itself
_ACCEPTED_AT_ONCE = 32


@dataclass(slots=True, eq=False)
class Caller:
    """A connection of somebody who called. number: drawn for this connection; said: its line so far."""

    connection: socket.socket
    address: str
    number: str = field(default_factory=drawn)
    since: float = field(default_factory=time.monotonic)
    said: bytes = b""


class Callers:
    """Who called and did not say yet who it is. first: what each is told, beside its number.

    answer_s: seconds that one has for its line, all of it.
    """

    def __init__(self, server: socket.socket, first: dict[str, Any], answer_s: float) -> None:
        self._server, self._first, self._answer_s = server, first, answer_s
        self._waiting: dict[socket.socket, Caller] = {}
        self._selector = selectors.DefaultSelector()
        server.setblocking(False)
        self._selector.register(server, selectors.EVENT_READ)

    def heard(self, wait_s: float) -> Iterator[tuple[Caller, dict[str, Any] | None]]:
        """The callers that said their line meanwhile, with it; None for what is no such line. The taker closes them."""
        for key, _ in self._selector.select(wait_s):
            if key.fileobj is self._server:
                self._accept()
            elif (caller := self._waiting.get(key.fileobj)) is not None:  # type: ignore[call-overload]
                yield from self._read(caller)
        for caller in [each for each in self._waiting.values() if time.monotonic() - each.since > self._answer_s]:
            self._drop(caller)

    def close(self) -> None:
        """Leaves all of them."""
        for caller in list(self._waiting.values()):
            self._drop(caller)
        self._selector.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, place = self._server.accept()
            except BlockingIOError:
                return
            except OSError:  # no room for another open file, or it has left already
                self._drop_one()
                return
            caller = Caller(connection, str(place[0]).removeprefix("::ffff:"))
            connection.setblocking(False)
            self._waiting[connection] = caller
            self._selector.register(connection, selectors.EVENT_READ)
            if len(self._waiting) > _MOST:
                self._drop_one()
            try:
                connection.send(line_of({**self._first, "number": caller.number}))
            except OSError:
                self._drop(caller)

    def _read(self, caller: Caller) -> Iterator[tuple[Caller, dict[str, Any] | None]]:
        try:
            more = caller.connection.recv(_LONGEST)
        except BlockingIOError:
            return
        except OSError:
            more = b""
        caller.said += more
        if more and b"\n" not in caller.said and len(caller.said) < _LONGEST:
            return
        self._forget(caller)
        if not more:
            caller.connection.close()  # it left without a word
            return
        yield caller, _content(caller.said)

    def _drop_one(self) -> None:
        if self._waiting:
            most = Counter(each.address for each in self._waiting.values()).most_common(1)[0][0]
            self._drop(next(each for each in self._waiting.values() if each.address == most))

    def _drop(self, caller: Caller) -> None:
        if caller.connection in self._waiting:
            self._forget(caller)
            caller.connection.close()

    def _forget(self, caller: Caller) -> None:
        del self._waiting[caller.connection]
        with suppress(KeyError, ValueError):
            self._selector.unregister(caller.connection)


def _content(line: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
