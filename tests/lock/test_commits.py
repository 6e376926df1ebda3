"""A model or a data set of the hub is the commit that it was, whatever its branch leads to by now."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from project import STACK, drift_of, make_project, states

from grpo_recipes.user_files.model_config import commit_in_cache

OLD, NEW = "a" * 40, "b" * 40
HUB_RECIPE = {"model": {"model_name_or_path": "owner/model"}, "tokenizer": None, "evaluation": None}


@pytest.fixture(autouse=True)
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, which cannot be asked."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "hub"


def _cached(hub: Path, commit: str, repository: str = "models--owner--model") -> None:
    folder = hub / repository
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "snapshots" / commit).mkdir(parents=True)
    (folder / "refs" / "main").write_text(commit)


def _planned(project: Path, grpo_run: Callable) -> Path:
    run = project / "run"
    answer = grpo_run(str(project / "recipe.yaml"), "--target", STACK, "--dry-run", "--out", str(run))
    assert answer.code == 0, answer.err
    return run


def test_a_commit_is_known_of_itself_of_the_cache_or_not_at_all(hub_cache: Path) -> None:
    assert commit_in_cache("owner/model", NEW) == NEW
    assert commit_in_cache("owner/model") is None
    _cached(hub_cache, OLD)
    assert commit_in_cache("owner/model") == commit_in_cache("owner/model", "main") == OLD
    assert commit_in_cache("owner/model", kind="datasets") is None
    _cached(hub_cache, NEW, "datasets--owner--model")
    assert commit_in_cache("owner/model", kind="datasets") == NEW


def test_a_plan_stays_at_its_commit_when_the_branch_has_moved(
    tmp_path: Path, grpo_run: Callable, hub_cache: Path
) -> None:
    _cached(hub_cache, OLD)
    run = _planned(make_project(tmp_path / "a", HUB_RECIPE), grpo_run)
    assert json.loads((run / "plan.json").read_text())["verified"]["model.commit"] == OLD
    _cached(hub_cache, NEW)
    code, lines = drift_of(run, grpo_run)
    assert (code, states(lines), lines["model"]["new"]) == (0, {}, OLD)
    assert grpo_run(str(run), "--target", STACK, "--dry-run", "--out", str(tmp_path / "again")).code == 0
    assert json.loads((tmp_path / "again" / "plan.json").read_text())["model"]["commit"] == OLD


def test_a_commit_that_is_not_here_cannot_be_verified(tmp_path: Path, grpo_run: Callable, hub_cache: Path) -> None:
    _cached(hub_cache, OLD)
    run = _planned(make_project(tmp_path / "a", HUB_RECIPE), grpo_run)
    (hub_cache / "models--owner--model" / "snapshots" / OLD).rmdir()
    code, lines = drift_of(run, grpo_run)
    assert (code, states(lines), lines["model"]["state"]) == (0, {}, "cannot be verified")


def test_a_plan_without_a_commit_says_so_until_a_run_has_loaded_one(
    tmp_path: Path, grpo_run: Callable, hub_cache: Path
) -> None:
    run = _planned(make_project(tmp_path / "a", HUB_RECIPE), grpo_run)
    code, lines = drift_of(run, grpo_run)
    assert (code, lines["model"]["state"]) == (0, "cannot be verified")
    assert lines["model"]["why"] == "the plan knows no commit of owner/model"
    (run / "run.json").write_text(json.dumps({"status": "completed", "verified": {"model.commit": OLD}}))
    assert grpo_run(str(run), "--target", STACK, "--dry-run", "--out", str(tmp_path / "again")).code == 0
    plan = json.loads((tmp_path / "again" / "plan.json").read_text())
    assert (plan["model"]["commit"], plan["verified"]["model.commit"]) == (OLD, OLD)


def test_another_revision_is_another_experiment(tmp_path: Path, grpo_run: Callable) -> None:
    run = _planned(make_project(tmp_path / "a", HUB_RECIPE), grpo_run)
    code, lines = drift_of(run, grpo_run, "--set", "model.model_revision=v2")
    assert (code, states(lines)) == (2, {"model.revision": "experiment"})


class _Hub(http.server.BaseHTTPRequestHandler):
    """Knows one model and one data set."""

    def do_GET(self) -> None:
        repositories = {"models/owner/model": OLD, "models/owner/model/revision/v2": NEW, "datasets/owner/rows": NEW}
        commit = repositories.get(self.path.partition("/api/")[2].partition("?")[0])
        name = "/".join(self.path.split("/")[3:5])
        body = json.dumps({"id": name, "sha": commit} if commit else {"error": "not found"}).encode()
        self.send_response(200 if commit else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub_address() -> Iterator[str]:
    """A hub on this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.stack
def test_the_hub_says_what_a_revision_is_now(hub_address: str) -> None:
    asked = [("owner/model", None, "models"), ("owner/model", "v2", "models"), ("owner/rows", None, "datasets")]
    code = (
        "from grpo_recipes.lock.pinned import hub_commit\n"
        f"print([hub_commit(*one) for one in {[*asked, ('owner/none', None, 'models')]!r}])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    environment |= {"HF_ENDPOINT": hub_address, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=180)
    assert done.stdout.strip() == repr([OLD, NEW, NEW, None]), done.stderr
