"""An export becomes a repository of a hub that answers on this machine."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytestmark = pytest.mark.stack

PUSH = """
import sys
from pathlib import Path
from grpo_recipes.worker.export.start import push
told = push(Path(sys.argv[1]), "owner/name", private=True)
print(told if isinstance(told, str) else [told.message, told.because[0], told.fix])
"""


class Hub(http.server.BaseHTTPRequestHandler):
    """Takes what is uploaded, if the repository may be made."""

    asked: ClassVar[list[tuple[str, Any]]] = []
    is_forbidden = False

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        lines = [json.loads(line) for line in body.splitlines()] if "/commit/" in self.path else [json.loads(body)]
        self.asked.append((self.path, lines))
        if self.is_forbidden:
            self._answer(403, {"error": "no rights to create a model under the namespace owner"})
        elif "/preupload/" in self.path:
            files = [{"path": one["path"], "uploadMode": "regular"} for one in lines[0]["files"]]
            self._answer(200, {"files": [{**one, "shouldIgnore": False, "oid": None} for one in files]})
        elif "/commit/" in self.path:
            url = f"{self.server_url()}/owner/name/commit/{'c' * 40}"
            self._answer(200, {"commitUrl": url, "commitOid": "c" * 40, "success": True})
        else:
            self._answer(200, {"url": f"{self.server_url()}/owner/name", "warnings": [], "errors": []})

    def do_GET(self) -> None:
        self._answer(200, {"id": "owner/name", "sha": "b" * 40, "siblings": []})

    def server_url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def _answer(self, status: int, content: Any) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    Hub.asked, Hub.is_forbidden = [], False
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "exported"
    place.mkdir()
    for name in ("README.md", "config.json", "grpo_run.json"):
        (place / name).write_text("{}")
    return place


def _push(folder: Path, hub: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment = {**kept, "HF_ENDPOINT": hub, "HF_TOKEN": "hf_" + "x" * 30, "HF_HOME": str(folder.parent / "home")}
    done = subprocess.run(
        [sys.executable, "-c", PUSH, folder], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_all_but_the_manifest_is_pushed_to_a_private_repository(folder: Path, hub: str) -> None:
    assert _push(folder, hub) == f"{hub}/owner/name/commit/{'c' * 40}"
    asked = {path.partition("?")[0]: lines for path, lines in Hub.asked}
    created = asked["/api/repos/create"][0]
    assert created.get("private") is True or created.get("visibility") == "private"
    committed = asked["/api/models/owner/name/commit/main"]
    assert sorted(one["value"]["path"] for one in committed if one["key"] == "file") == ["README.md", "config.json"]


def test_a_push_that_is_refused_is_told_with_the_way_out(folder: Path, hub: str) -> None:
    Hub.is_forbidden = True
    said = _push(folder, hub)
    assert f"owner/name was not pushed; {folder} is complete" in said
    assert f"hf upload owner/name {folder}" in said
    assert "403" in said
    assert (folder / "grpo_run.json").exists()
