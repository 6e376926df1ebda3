"""What is not what was trained is refused, and nothing is left of an export that did not end well."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from export_runs import Answer

from grpo_recipes.contract.read_plan import from_json

pytestmark = pytest.mark.stack


def _rows_dropped(model: Any, dtype: Any, otherwise: str) -> Any:
    """A merge whose embedding has the rows of the base alone."""
    plain = model.merge_and_unload().to(dtype)
    plain.resize_token_embeddings(plain.config.vocab_size - 2)
    return plain


def _rows_made_anew(model: Any, dtype: Any, otherwise: str) -> Any:
    """A merge whose rows of added tokens are not the trained ones."""
    plain = model.merge_and_unload().to(dtype)
    plain.get_input_embeddings().weight.data[-2:] = 1.0
    return plain


BROKEN = {
    "rows dropped": (_rows_dropped, "its embedding has 58 rows, that of the trained model 60"),
    "rows made anew": (_rows_made_anew, "its log-probabilities differ by up to"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_merge_is_refused_by_the_proof(
    broken: str, run_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grpo_recipes.worker._shared.replacing import Refused
    from grpo_recipes.worker.export import export

    run, place = run_of("tied"), tmp_path / "place" / "exported"
    merge, said = BROKEN[broken]
    monkeypatch.setattr(export, "merged", merge)
    plan = from_json((run / "plan.json").read_text())
    with pytest.raises(Refused) as refused:
        export.write_export(plan, run, export.ExportAsked("model", "bfloat16", place), tmp_path / "scratch", print)
    assert "the exported model is not the trained one, nothing was written" in str(refused.value)
    assert said in str(refused.value)
    assert list(place.parent.iterdir()) == []


def test_a_trained_model_that_was_changed_is_not_exported(
    run_of: Callable[[str], Path], export: Callable[..., Answer], tmp_path: Path
) -> None:
    run = shutil.copytree(run_of("lora"), tmp_path / "run")
    weights = run / "final" / "adapter_model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    done = export(run, "-o", tmp_path / "exported")
    assert done.code == 2
    assert "final/adapter_model.safetensors was changed" in done.err
    assert done.out == ""
    assert not (tmp_path / "exported").exists()


@pytest.mark.parametrize("parent", ["a_file", "/proc"])
def test_a_place_that_takes_no_folder_is_said(
    parent: str, run_of: Callable[[str], Path], export: Callable[..., Answer], tmp_path: Path
) -> None:
    (tmp_path / "a_file").write_text("kept")
    place = tmp_path / parent / "exported"
    done = export(run_of("lora"), "-o", place)
    assert done.code == 1, done.err
    assert f"{place} cannot be written: no folder can be created there" in done.err
    assert "= fix: -o with a folder elsewhere" in done.err
    assert (tmp_path / "a_file").read_text() == "kept"


def test_a_full_disk_is_said_and_nothing_is_left(
    run_of: Callable[[str], Path], small_disk: Callable[[int], Path], tmp_path: Path
) -> None:
    from grpo_recipes.contract.files import exchange_files
    from grpo_recipes.worker.export import start

    disk = small_disk(600)
    request = {
        "run": str(run_of("lora")),
        "what": "model",
        "dtype": None,
        "place": str(disk / "exported"),
        "converter": None,
        "push": None,
    }
    exchange_files.write_request(tmp_path, request)
    assert start.main([str(tmp_path)]) == 0
    answer = exchange_files.read_answer(tmp_path)
    assert answer["exit_code"] == 1
    (finding,) = answer["findings"]
    assert f"{disk / 'exported'} cannot be written: no space left on device" in finding["message"]
    assert answer["shown"] is None
    assert list(disk.iterdir()) == []


def test_a_killed_export_leaves_nothing_at_its_place_and_the_next_one_cleans_up(
    run_of: Callable[[str], Path], warm_python: Path, export: Callable[..., Answer], tmp_path: Path
) -> None:
    place = tmp_path / "exported"
    words = [warm_python / "grpo-run", "export", run_of("lora"), "-o", place]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(words, env=environment, start_new_session=True, stdout=subprocess.DEVNULL)
    give_up = time.monotonic() + 300
    while not list(tmp_path.glob(".exported.*/config.json")):
        assert time.monotonic() < give_up
        assert child.poll() is None
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not place.exists()
    time.sleep(1.0)  # in which what it started ends
    assert not place.exists()
    assert list(tmp_path.glob(".exported.*"))
    done = export(run_of("lora"), "-o", place)
    assert done.code == 0, done.out + done.err
    assert list(tmp_path.iterdir()) == [place]
    assert json.loads((place / "run.json").read_text())["export"]["dtype"] == "float32"
