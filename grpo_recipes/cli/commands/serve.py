"""`grpo-run serve`: serves a trained model through OpenAI's chat completions API, one request at a time."""

import base64
import contextlib
import json
import os
import socketserver
import time
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.cli.launching import allow_code_option
from grpo_recipes.cli.options import a_run
from grpo_recipes.cli.trained_run import print_answer, trained_run
from grpo_recipes.contract.exits import EXIT_DONE, Refusal
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.report.trained_text import conversation_text

if TYPE_CHECKING:
    from grpo_recipes.launch.worker_part import Exchange

_LOOPBACK = ("127.0.0.1", "localhost")
_ROLES = ("system", "user", "assistant")
_NUMBERS = {
    "temperature": (0, 2),
    "top_p": (0.001, 1),
    "max_tokens": (1, 1 << 20),
    "max_completion_tokens": (1, 1 << 20),
}
_TAKEN = ("model", "messages", *_NUMBERS, "n", "stream", "user")
_MOST_BYTES = 32 << 20
_SILENT_S = 10.0


@click.command()
@click.argument("run", metavar="RUNDIR", shell_complete=files, callback=a_run)
@click.option("--host", default=_LOOPBACK[0], show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option("--greedy", is_flag=True, help="Take the most likely token if a request sets no temperature.")
@allow_code_option
def serve(run: str, host: str, port: int, greedy: bool, allowed: tuple[str, ...]) -> int:
    """Serve a run's trained model at OpenAI's /v1/chat/completions, one request at a time.

    Uses the recipe's chat template, system prompt, stops, sampling and tools; a request can set a different system
    message, temperature, top_p and max_tokens. Prints its address when the model is loaded; Ctrl-C ends it. Exit codes:
    0 ended, 2 nothing was started, 3 tools differ from the run's.

    \b
    grpo-run serve runs/addition-20260101-120000 --port 8000
    """
    plan, folder = trained_run(run, allowed, with_rewards=False, with_tools=True)
    from grpo_recipes.launch.worker_part import part_answer  # only needed to run something

    try:
        server = ModelServer(host, port, os.path.basename(folder))
    except OSError as problem:
        because = problem.strerror or str(problem)
        raise Refusal.of(f"cannot listen on {host}:{port}", because=because, fix="--port with a free number") from None

    def talk(exchange: "Exchange") -> None:
        click.echo(redact(conversation_text(exchange("loading the model"))), err=True)
        click.echo(f"http://{host}:{server.server_address[1]}/v1")
        server.exchange = exchange
        while server.exchange is not None:
            server.handle_request()

    with server, contextlib.suppress(KeyboardInterrupt):
        answer = part_answer(plan, "answering.start", "serve", {"run": folder, "greedy": greedy}, talk=talk)
        if answer["shown"] is None:
            return print_answer(answer, "serve", str, as_json=False)
    return EXIT_DONE


class ModelServer(socketserver.TCPServer):
    """Listens for requests. exchange: asks the model, None unless it is loaded. model: its name for clients."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, model: str) -> None:
        self.host, self.model, self.began = host, model, int(time.time())
        self.exchange: Exchange | None = None
        super().__init__((host, port), ModelRequest)


class ModelRequest(BaseHTTPRequestHandler):
    """Answers one request. A web page cannot send one: browsers ask with OPTIONS first, and other hosts are refused."""

    server: ModelServer
    timeout = _SILENT_S

    def do_GET(self) -> None:
        """Lists the one model."""
        if not self._is_refused("/v1/models"):
            of_run = {"id": self.server.model, "object": "model", "created": self.server.began, "owned_by": "grpo-run"}
            self._send(200, {"object": "list", "data": [of_run]})

    def do_POST(self) -> None:
        """Answers a chat completion."""
        if self._is_refused("/v1/chat/completions") or self.server.exchange is None:
            return
        try:
            said = self.server.exchange("answering", model_request(self._body()))
        except (ValueError, RecursionError) as problem:
            said = {"refused": str(problem)}
        except EOFError:
            self.server.exchange = None
            self._refuse(500, "the model's process has ended")
            return
        if "refused" in said:
            self._refuse(400, said["refused"])
        else:
            self._send(200, completion_of(said, self.server.model))

    def log_message(self, format: str, *values: Any) -> None:
        click.echo(redact(f"{self.log_date_time_string()}  {format % values}"), err=True)

    def _is_refused(self, path: str) -> bool:
        name = self.headers.get("Host", "").partition(":")[0]
        if self.server.host in _LOOPBACK and name not in _LOOPBACK:
            self._refuse(403, f"{name} is not a loopback name such as localhost")
            return True
        if self.path != path:
            self._refuse(404, f"{self.path} is neither GET /v1/models nor POST /v1/chat/completions")
        return self.path != path

    def _body(self) -> Any:
        length = int(self.headers.get("Content-Length") or -1)
        if self.headers.get_content_type() != "application/json" or not 0 <= length <= _MOST_BYTES:
            raise ValueError(f"a request needs Content-Type: application/json and at most {_MOST_BYTES} bytes")
        return json.loads(self.rfile.read(length))

    def _refuse(self, status: int, text: str) -> None:
        self._send(status, {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": None}})

    def _send(self, status: int, answer: Mapping[str, Any]) -> None:
        content = json.dumps(answer).encode()
        with contextlib.suppress(OSError):  # the client has disconnected
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)


def model_request(body: Any) -> dict[str, Any]:
    """The input of the model for a request. Raises ValueError for fields that are unsupported, or would be ignored."""
    given = {name: value for name, value in body.items() if value is not None} if isinstance(body, dict) else {}
    if strange := [name for name in given if name not in _TAKEN]:
        raise ValueError(f"{strange[0]} is not supported; a request can set {', '.join(_TAKEN)}")
    if given.get("stream") or given.get("n", 1) != 1:
        raise ValueError("stream can only be false, and n only 1")
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        raise ValueError(f"messages is not a list of messages with content and a role of {', '.join(_ROLES)}")
    for name, (least, most) in _NUMBERS.items():
        if name in given and not (type(given[name]) in (int, float) and least <= given[name] <= most):
            raise ValueError(f"{name} is not a number from {least} to {most}")
    asked: dict[str, Any] = {
        "messages": [{"role": message["role"], "content": _content(message["content"])} for message in messages]
    }
    asked["sampling"] = {name: float(given[name]) for name in ("temperature", "top_p") if given.get(name)}
    if "temperature" in given:
        asked["greedy"] = given["temperature"] == 0
    if (longest := given.get("max_completion_tokens", given.get("max_tokens"))) is not None:
        asked["max_tokens"] = int(longest)
    return asked


def _is_message(given: Any) -> bool:
    is_content = isinstance(given, dict) and isinstance(given.get("content"), (str, list))
    return is_content and given.get("role") in _ROLES


def _content(given: str | list[Any]) -> Any:
    """A text, or parts if any of them is an image. Raises ValueError for other parts, and for addresses of images."""
    if isinstance(given, str):
        return given
    parts = [_part(part) for part in given]
    return parts if any("image" in part for part in parts) else "".join(part["text"] for part in parts)


def _part(given: Any) -> dict[str, str]:
    match given:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            kind, is_base64, content = url.partition(";base64,")
            if not (kind.startswith("data:") and is_base64):
                raise ValueError(f"{url[:80]} is not fetched; send the image itself as data:image/png;base64,...")
            try:
                base64.b64decode(content, validate=True)
            except ValueError as problem:
                raise ValueError(f"an image_url is not base64: {problem}") from None
            return {"type": "image", "image": content}
    raise ValueError("each part of a message must be a text or an image_url as in OpenAI's API")


def completion_of(said: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The model's answer as an object of OpenAI's API."""
    message = {"role": "assistant", "content": said["completion"]}
    reason = "length" if said["ended_by"] == "length" else "stop"
    prompt, new = said["prompt_tokens"], said["tokens"]
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": new, "total_tokens": prompt + new},
    }
