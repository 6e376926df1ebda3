"""What a run folder or a model's folder holds is loaded as it was written and allowed, or not at all."""

import dataclasses
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from worker_runs import Changes

from grpo_recipes.contract.integrity.digests import digests_of, sizes_in
from grpo_recipes.contract.integrity.manifest import MANIFEST, as_json
from grpo_recipes.contract.integrity.seal import seal_content, unseal
from grpo_recipes.contract.plan import CODE_OF, Data, Plan
from grpo_recipes.user_files.digests import code_files
from grpo_recipes.worker._shared.planned import read_plan
from grpo_recipes.worker._shared.replacing import Refused

pytestmark = pytest.mark.stack

COMMIT = "0123456789" * 4


@pytest.fixture(scope="module")
def written(make_plan: Callable[..., Changes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with the model that has new tokens."""
    from grpo_recipes.worker.model.own_model import write_own_model

    folder = tmp_path_factory.mktemp("written")
    content = make_plan()
    content["tokenizer"]["add_tokens"] = ["<search>"]
    (folder / "plan.json").write_text(json.dumps(content))
    write_own_model(read_plan(folder), folder / "extended_model")
    return folder


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def _linked(path: Path) -> None:
    shutil.move(path, path.parents[1] / "elsewhere")
    path.symlink_to("../elsewhere")


def _whole_linked(place: Path) -> None:
    shutil.move(place, place.with_name("elsewhere"))
    place.symlink_to("elsewhere")


def _with_code(place: Path) -> None:
    """What a stranger does who writes the list anew."""
    (place / "modeling.py").write_text("x = 1")
    digests = digests_of(place, set(sizes_in(place)) - {MANIFEST})
    content = unseal("model", (place / MANIFEST).read_text()) | {"files": as_json(digests)}
    (place / MANIFEST).write_text(seal_content("model", content))


ALTERED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a bit of the weights": (lambda place: _flipped(place / "model.safetensors"), "model.safetensors has the sha256"),
    "the configuration": (lambda place: (place / "config.json").write_text("{}"), "config.json has"),
    "the tokenizer": (lambda place: (place / "tokenizer.json").write_text("{}"), "tokenizer.json has"),
    "code more": (lambda place: (place / "modeling.py").write_text("x = 1"), "modeling.py was not written with it"),
    "weights more": (
        lambda place: (place / "pytorch_model.bin").write_bytes(b"x"),
        "pytorch_model.bin was not written",
    ),
    "a hidden file more": (lambda place: (place / ".x.so").write_bytes(b"x"), ".x.so was not written"),
    "an adapter more": (
        lambda place: (place / "adapter_config.json").write_text("{}"),
        "adapter_config.json was not written",
    ),
    "a file less": (lambda place: (place / "generation_config.json").unlink(), "generation_config.json is missing"),
    "a link to the same": (
        lambda place: _linked(place / "model.safetensors"),
        "model.safetensors is not a regular file",
    ),
    "no list": (lambda place: (place / MANIFEST).unlink(), "it has no grpo_run.json"),
    "a list that is none": (lambda place: (place / MANIFEST).write_text("[]"), "was changed"),
    "a list that is cut": (lambda place: (place / MANIFEST).write_text('{"a'), "was changed"),
    "a list without end": (lambda place: (place / MANIFEST).write_text("[" * 100_000), "was changed"),
    "a list with code": (_with_code, "reading modeling.py may run code"),
    "a link for the whole": (_whole_linked, "it is a link or a file, not a folder"),
    "a file for the whole": (lambda place: [shutil.rmtree(place), place.write_text("x")], "not a folder"),
}


@pytest.mark.parametrize("what", ALTERED)
def test_an_altered_model_with_new_tokens_is_made_anew(
    what: str, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from grpo_recipes.worker.model.own_model import write_own_model

    alter, message = ALTERED[what]
    folder = Path(shutil.copytree(written, tmp_path / "run"))
    before = code_files(str(folder / "extended_model"))
    alter(folder / "extended_model")
    write_own_model(read_plan(folder), folder / "extended_model")
    said = capsys.readouterr().out
    assert "rewriting extended_model: " in said and message in said
    assert {**code_files(str(folder / "extended_model")), MANIFEST: ""} == {**before, MANIFEST: ""}


def test_a_model_with_new_tokens_that_is_as_it_was_written_is_taken(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from grpo_recipes.worker.model.own_model import write_own_model

    folder = Path(shutil.copytree(written, tmp_path / "run"))
    before = code_files(str(folder))
    write_own_model(read_plan(folder), folder / "extended_model")
    assert code_files(str(folder)) == before
    assert capsys.readouterr().out == ""


def test_nothing_is_written_through_a_link_of_an_unfinished_attempt(written: Path, tmp_path: Path) -> None:
    from grpo_recipes.worker.model.own_model import write_own_model

    (tmp_path / "outside").mkdir()
    (tmp_path / "plan.json").write_text((written / "plan.json").read_text())
    (tmp_path / ".extended_model.writing").symlink_to("outside")
    write_own_model(read_plan(tmp_path), tmp_path / "extended_model")
    assert list((tmp_path / "outside").iterdir()) == []
    assert (tmp_path / "extended_model" / MANIFEST).is_file()


def rows(folder: Path, sums: Path) -> list[str]:
    from worker_runs import planned_data

    from grpo_recipes.worker.data.dataset import load_rows

    return [row["answer"] for row in load_rows(Data(**planned_data(sums)), "dataset", folder / "cache")]


def _poison(cache: Path) -> None:
    for path in cache.rglob("*.arrow"):
        path.write_bytes(path.read_bytes().replace(b"18", b"99"))


def test_rows_that_somebody_left_in_the_cache_are_not_taken(sums: Path, tmp_path: Path) -> None:
    from grpo_recipes.worker.data.dataset import without_cache

    right = rows(tmp_path, sums)
    _poison(tmp_path / "cache")
    assert rows(tmp_path, sums) != right, "the library takes what lies there"
    without_cache(tmp_path / "cache")
    assert rows(tmp_path, sums) == right


@pytest.mark.parametrize("kind", ["nothing", "folder", "file", "link", "broken link", "link inside"])
def test_the_cache_is_removed_and_nothing_else(kind: str, tmp_path: Path) -> None:
    from grpo_recipes.worker.data.dataset import without_cache

    outside, cache = tmp_path / "outside", tmp_path / "run" / "cache"
    outside.mkdir()
    cache.parent.mkdir()
    (outside / "kept").write_text("x")
    make: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "folder": lambda: (cache / "a").mkdir(parents=True),
        "file": lambda: cache.write_text("x"),
        "link": lambda: cache.symlink_to(outside),
        "broken link": lambda: cache.symlink_to("nowhere"),
        "link inside": lambda: [cache.mkdir(), (cache / "a").symlink_to(outside)],
    }
    make[kind]()
    without_cache(cache)
    assert not os.path.lexists(cache)
    assert (outside / "kept").read_text() == "x"


OWN = """
from transformers import Qwen2Config
{more}

class OwnConfig(Qwen2Config):
    model_type = "own"
"""
# The library reads where it keeps code when it is imported, in this process earlier.
LOADS = """
import os, sys, transformers.dynamic_module_utils
transformers.dynamic_module_utils.HF_MODULES_CACHE = os.environ["HF_MODULES_CACHE"]
from pathlib import Path
from grpo_recipes.worker._shared.planned import read_plan
from grpo_recipes.worker.user_code.model_code import run_only_planned_code
from grpo_recipes.worker._shared.replacing import Refused
from transformers import AutoConfig
folder = Path(sys.argv[1])
if sys.argv[2] == "checked":
    run_only_planned_code(read_plan(folder))
if sys.argv[3]:
    exec(sys.argv[3])
try:
    print(type(AutoConfig.from_pretrained(folder / "model", trust_remote_code=True)).__name__)
except Refused as stopped:
    print(stopped)
"""


@pytest.fixture
def own(make_plan: Callable[..., Changes], tiny_model: Path, tmp_path: Path) -> Path:
    """A plan for a model whose configuration is code beside it, with a second file that the first one imports."""
    model = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    changed = {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig"}}
    config = json.loads((model / "config.json").read_text()) | changed
    (model / "config.json").write_text(json.dumps(config))
    (model / "own.py").write_text(OWN.format(more="from .beside import VALUE"))
    (model / "beside.py").write_text("VALUE = 1\n")
    content = make_plan()
    content["model"] |= {"path": str(model), "files": code_files(str(model))}
    (tmp_path / "plan.json").write_text(json.dumps(content))
    return tmp_path


@pytest.fixture
def load(warm_python: Path) -> Callable[..., str]:
    """What a process prints that loads the model of a folder, and does something before."""

    def run(folder: Path, how: str, just_before: str = "") -> str:
        environment = {**os.environ, "HF_MODULES_CACHE": str(folder / "modules"), "HF_HUB_OFFLINE": "1"}
        command = [str(warm_python / "python"), "-Xwarm", "-c", LOADS, str(folder), how, just_before]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        return done.stdout + done.stderr[-2000:]

    return run


def test_planned_code_runs(own: Path, load: Callable[..., str]) -> None:
    assert load(own, "checked").startswith("OwnConfig")


@pytest.mark.parametrize("file", ["own.py", "beside.py"])
def test_code_that_is_swapped_after_every_look_does_not_run(file: str, own: Path, load: Callable[..., str]) -> None:
    canary = own / "canary"
    evil = f"VALUE = 1\nimport pathlib\npathlib.Path({str(canary)!r}).touch()\n"
    text = OWN.format(more=f"from .beside import VALUE\n{evil}") if file == "own.py" else evil
    swap = f"(folder / 'model' / {file!r}).write_text({text!r})"
    said = load(own, "checked", swap)
    assert f"code in {file} has changed since the plan was made" in said
    assert not canary.exists()
    load(own, "unchecked")
    assert canary.exists(), "it would have run"


def test_a_compiled_copy_does_not_run_in_place_of_the_planned_code(own: Path, load: Callable[..., str]) -> None:
    """Python takes a compiled copy whose time and size are those of the source."""
    canary = own / "canary"
    assert load(own, "checked").startswith("OwnConfig")
    evil = f"VALUE = 1; open({str(canary)!r}, 'w')"
    poison = (
        "import importlib.util, marshal, struct; "
        "source = next((folder / 'modules').rglob('beside.py')); status = source.stat(); "
        f"code = compile({evil!r}, 'x', 'exec'); "
        "copy = Path(importlib.util.cache_from_source(source)); copy.parent.mkdir(exist_ok=True); "
        "copy.write_bytes(importlib.util.MAGIC_NUMBER + struct.pack('<III', 0, int(status.st_mtime), status.st_size)"
        " + marshal.dumps(code))"
    )
    assert load(own, "checked", poison).startswith("OwnConfig")
    assert not canary.exists()
    load(own, "unchecked", poison)
    assert canary.exists(), "it would have run"


def _plan(own: Path, **verified: object) -> Plan:
    plan = read_plan(own)
    model = dataclasses.replace(plan.model, source="hub", path="some/model", commit=COMMIT, files={})
    return dataclasses.replace(plan, model=model, verified=verified)


@pytest.mark.parametrize("repository", ["some/model", "some/code"])
def test_code_of_the_hub_is_taken_at_its_commit(repository: str, own: Path) -> None:
    from grpo_recipes.worker.user_code.model_code import _pin_revisions

    asked: list[object] = []
    plan = _plan(own, **{f"{CODE_OF}some/model": COMMIT, f"{CODE_OF}some/code": COMMIT})
    get = _pin_revisions(plan, lambda *given, **keywords: asked.append(keywords["revision"]) or "x.py", set())
    get(repository, "x.py", revision="main")
    assert asked == [COMMIT]


def test_code_of_a_repository_that_nobody_knew_of_is_not_taken(own: Path) -> None:
    from grpo_recipes.worker.user_code.model_code import _pin_revisions

    get = _pin_revisions(_plan(own, **{f"{CODE_OF}some/model": COMMIT}), lambda *given, **keywords: "x.py", set())
    with pytest.raises(Refused, match="has its code in somebody/else"):
        get("somebody/else", "x.py", revision=None)
