"""Client for a model behind an OpenAI-compatible endpoint, with time limits, retries and a cache.

The key is read from the environment and sent only to that address: a redirect is a failure. Every response, including
error messages, is redacted before anything else sees it: secrets of the environment are removed. A useful answer is
stored in grpo-run's cache under the digest of its question, so each question is paid for once.
"""

import contextlib
import hashlib
import json
import os
import random
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from grpo_recipes.contract.files.own_cache import read_cache, write_cache
from grpo_recipes.contract.secrets.known_secrets import SHORTEST, names_a_secret
from grpo_recipes.contract.secrets.redact import hide_secrets, redact
from grpo_recipes.worker._shared.replacing import Refused

PATH = "/chat/completions"
TRIED_AGAIN = frozenset((408, 409, 425, 429, *range(500, 600)))
WRONG_KEY, WRONG_NAME = frozenset((401, 403)), 404
CUT, EMPTY = "the answer is cut at max_tokens", "the answer is empty"
_MOST_BYTES = 4 << 20
_MOST_SHOWN = 300
_LONGEST_PAUSE_S = 60.0
_DRAWN = random.SystemRandom()  # not the random module's generator, which the training depends on

Body = Mapping[str, Any]


class NoAnswer(Exception):
    """A question got no answer, for the reason in the text. status: the HTTP status, None without a response."""

    def __init__(self, why: str, *, status: int | None = None, again: bool = True, pause: float = 0.0) -> None:
        super().__init__(" ".join(redact(_plain(why)).split())[:_MOST_SHOWN])
        self.status, self.again, self.pause = status, again, pause


class ChatClient:
    """Sends questions to one endpoint. base_url: without a trailing slash. remembers: cache answers and reuse them.

    takes_cut: accept an answer that was cut at max_tokens. retries: repeats after a failure. concurrency: questions in
    flight. has_answered: whether the endpoint has answered anything. forgets: whether an answer could not be stored.
    """

    def __init__(
        self,
        base_url: str,
        key_variable: str | None,
        timeout: float,
        retries: int,
        concurrency: int,
        *,
        remembers: bool = True,
        takes_cut: bool = False,
    ) -> None:
        self.has_answered, self.forgets, self._takes_cut = False, False, takes_cut
        self._url, self._headers = f"{base_url}{PATH}", headers(base_url, key_variable)
        self._timeout, self._retries, self._concurrency, self._remembers = timeout, retries, concurrency, remembers
        tls = urllib.request.HTTPSHandler(context=ssl.create_default_context())
        self._opener = urllib.request.build_opener(_NoRedirects(), tls)
        self._down, self._lock = threading.Event(), threading.Lock()
        self._lost, self._why = 0, NoAnswer("")

    def answers(self, questions: Sequence[Body], is_of_use: Callable[[str], bool] = bool) -> list[str | NoAnswer]:
        """Returns the answer to each question (the fields of a request), or a NoAnswer. Duplicates are sent once.

        is_of_use: whether to cache an answer; other questions are sent again next time. If `concurrency` questions in a
        row fail after all retries, the endpoint counts as down and the remaining questions fail immediately, so a
        generation does not wait for each completion.
        """
        self._down.clear()
        self._lost = 0
        texts = [json.dumps(question, ensure_ascii=False, sort_keys=True) for question in questions]
        known: dict[str, str | NoAnswer] = {}
        places = {text: self._place(text) for text in texts}
        for text, path in places.items() if self._remembers else ():
            entry = read_cache(path, 2 * _MOST_BYTES)
            if isinstance(entry, dict) and isinstance(entry.get("answer"), str):
                known[text] = entry["answer"]
        unknown = [text for text in places if text not in known]
        pool = ThreadPoolExecutor(self._concurrency)
        try:
            for text, answer in zip(unknown, pool.map(self._answer, unknown), strict=True):
                known[text] = answer
                if self._remembers and isinstance(answer, str) and is_of_use(answer):
                    self.forgets |= not write_cache(places[text], {"answer": answer})
        finally:  # also after a signal: questions that wait for their turn give up
            self._down.set()
            pool.shutdown(wait=False, cancel_futures=True)
        return [known[text] for text in texts]

    def _place(self, question: str) -> str:
        name = hashlib.sha256(f"{self._url}\0{question}".encode("utf-8", "replace")).hexdigest()
        return f"asked/{name[:2]}/{name}.json"

    def _answer(self, question: str) -> str | NoAnswer:
        try:
            return self._ask(question.encode("utf-8", "replace"))
        except NoAnswer as problem:
            return problem

    def _ask(self, question: bytes) -> str:
        """Sends a question until it is answered or a retry is pointless. Raises NoAnswer."""
        failures = 0
        while not self._down.is_set():
            try:
                text = self._send(question)
            except NoAnswer as problem:
                if not problem.again:
                    raise
                failures += 1
                if failures > self._retries:
                    self._lose(problem)
                    raise
                pause = max(problem.pause, 2.0 ** (failures - 1)) * _DRAWN.uniform(1.0, 1.25)
                self._down.wait(min(pause, _LONGEST_PAUSE_S))
            else:
                self._lost, self.has_answered = 0, True
                return text
        raise NoAnswer(str(self._why), status=self._why.status)

    def _lose(self, problem: NoAnswer) -> None:
        with self._lock:
            self._lost += 1
            if self._lost >= self._concurrency:
                self._why = problem
                self._down.set()

    def _send(self, question: bytes) -> str:
        """Returns the answer to one request. Raises NoAnswer on any failure; its text never quotes the request."""
        # A socket's timeout starts again with every byte received.
        until, content = time.monotonic() + self._timeout, bytearray()
        try:
            request = urllib.request.Request(self._url, question, self._headers, method="POST")
            with self._opener.open(request, timeout=self._timeout) as response:
                while part := response.read1(_MOST_BYTES):
                    content += part
                    if time.monotonic() > until:
                        raise TimeoutError
                    if len(content) > _MOST_BYTES:
                        raise NoAnswer(f"the answer is larger than {_MOST_BYTES >> 20} MiB", again=False)
            return hide_secrets(_text(bytes(content), takes_cut=self._takes_cut))
        except NoAnswer:
            raise
        except urllib.error.HTTPError as problem:
            failure = _of_status(problem)
        except Exception as problem:
            reason = getattr(problem, "reason", problem)
            late = f"no answer within {self._timeout:g} s"
            failure = NoAnswer(late if isinstance(reason, TimeoutError) else f"{type(reason).__name__}: {reason}")
        raise failure


def headers(base_url: str, key_variable: str | None) -> dict[str, str]:
    """Returns the headers of a request, with the key. Raises Refused, without the key, if it is unusable."""
    plain = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "grpo-run"}
    if key_variable is None:
        return plain
    key = os.environ.get(key_variable, "").strip()
    if not names_a_secret(key_variable):
        why, fix = "its name does not say that its value is secret", "a name such as JUDGE_API_KEY"
    elif not key:
        why, fix = "it is not set", f"export {key_variable}=... in the shell that starts grpo-run"
    elif len(key) < SHORTEST:
        why = f"it is shorter than {SHORTEST} characters, too short to be redacted from texts"
        fix = f"export {key_variable}=... with the whole key; if the endpoint needs no key, remove key_variable"
    elif not (key.isascii() and key.isprintable() and " " not in key):
        why, fix = "it contains characters that a key cannot contain", f"export {key_variable}=... with only the key"
    else:
        return {**plain, "Authorization": f"Bearer {key}"}
    raise Refused.of(f"the key of {base_url} cannot be taken from {key_variable}", because=why, fix=fix)


def _text(content: bytes, *, takes_cut: bool) -> str:
    """Returns the text of a chat completion. Raises NoAnswer for any other content."""
    try:
        body = json.loads(content)
        error = body.get("error") if isinstance(body, dict) else None
        choice = body["choices"][0] if not error else {}
        text = choice["message"].get("content") if choice else None
        if isinstance(text, list):
            text = "".join(part["text"] for part in text if part.get("type") == "text")
        is_text = text is None or isinstance(text, str)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        error, is_text = None, False
    if error:
        raise NoAnswer(f"the answer is an error: {_reason(error)}")
    if not is_text:
        raise NoAnswer("the answer is not the JSON of a chat completion")
    if choice.get("finish_reason") == "length" and not takes_cut:
        raise NoAnswer(CUT, again=False)
    if not text:
        raise NoAnswer(EMPTY, again=False)
    return _plain(text)


def _reason(error: object) -> str:
    """Returns the message in an endpoint's error object."""
    return str(error.get("message") or error) if isinstance(error, dict) else str(error)


def _plain(text: str) -> str:
    """Returns the text without lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def _of_status(problem: urllib.error.HTTPError) -> NoAnswer:
    """Returns the failure for an HTTP error status, with the endpoint's message."""
    status, detail = problem.code, ""
    with contextlib.suppress(Exception), problem:
        detail = problem.read(1 << 16).decode("utf-8", errors="replace")
        error = json.loads(detail)
        detail = _reason(error.get("error", error) if isinstance(error, dict) else error)
    if 300 <= status < 400:
        where = f"a redirect to {problem.headers.get('Location')}, which is not followed"
        return NoAnswer(f"HTTP {status}, {where}", status=status, again=False)
    pause = problem.headers.get("Retry-After") or ""
    return NoAnswer(
        f"HTTP {status}: {detail or problem.reason}",
        status=status,
        again=status in TRIED_AGAIN,
        pause=float(pause) if pause.isascii() and pause.isdigit() and len(pause) < 6 else 0.0,
    )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, which would send the key and the texts to an address that the recipe does not name."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None
