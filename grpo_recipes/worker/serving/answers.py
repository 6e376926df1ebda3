"""What a vLLM server answers about itself. No proxy is asked on the way."""

import http.client
import json
from typing import Any
from urllib.parse import SplitResult, urlsplit

_TIMEOUT_S = 5.0
_REDIRECTS = (301, 302, 307, 308)


def get(url: str, path: str) -> tuple[int, bytes]:
    """Status and body of a GET; one redirect on the same server is followed. Raises OSError when nobody answers."""
    server = urlsplit(url)
    status, body, place = _asked(server, server.path.rstrip("/") + path)
    if status in _REDIRECTS and place is not None:
        # Up to TRL 1.10 the path of its server's health ends with a slash.
        status, body, _ = _asked(server, urlsplit(place).path)
    return status, body


def is_healthy(url: str) -> bool:
    """Whether the server says that it can work."""
    try:
        return get(url, "/health")[0] == 200
    except OSError:
        return False


def models(url: str) -> list[dict[str, Any]] | None:
    """What the server lists as its models: id, root, max_model_len. None for one that has no such list.

    TRL's own server, up to 1.10, has none. Raises OSError when nobody answers.
    """
    status, body = get(url, "/v1/models")
    if status != 200:
        return None
    try:
        listed = json.loads(body)["data"]
    except (ValueError, KeyError, TypeError):
        return None
    return [model for model in listed if isinstance(model, dict)] if isinstance(listed, list) else None


def _asked(server: SplitResult, path: str) -> tuple[int, bytes, str | None]:
    """Status, body and the place that it points to."""
    kind = http.client.HTTPSConnection if server.scheme == "https" else http.client.HTTPConnection
    connection = kind(server.netloc, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read(), response.getheader("Location")
    except http.client.HTTPException as problem:
        raise OSError(f"{type(problem).__name__}: {problem}") from problem
    finally:
        connection.close()
