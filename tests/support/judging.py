"""Runs a small OpenAI-compatible server in the test process, with answers from the test."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Request = dict[str, Any]
# Gets the body of a request; returns a text that answers it, or status, headers and body of the response.
Answer = Callable[[Request], "str | tuple[int, dict[str, str], bytes]"]


@dataclass(slots=True)
class Served:
    """A running server. url: its base_url; asked: the request bodies; keys: the headers with a key."""

    url: str
    asked: list[Request] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


@contextmanager
def endpoint(answer: Answer) -> Iterator[Served]:
    """Runs a server on a free port of this machine until the block ends."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                served.asked.append(body)
                served.keys.append(self.headers.get("Authorization"))
            found = answer(body)
            status, headers, content = found if isinstance(found, tuple) else (200, {}, completion(found))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):  # the client no longer waits
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # with a backlog of 5, a busy machine loses some

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served = Served(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def completion(text: str | None, **more: Any) -> bytes:
    """Returns the body of a chat completion with this text."""
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}, **more}]}).encode()


def asked_text(body: Request) -> str:
    """Returns the last message of a request."""
    return str(body["messages"][-1]["content"])
