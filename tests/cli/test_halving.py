"""A run without memory for its first step restarts with half the micro-batch if its recipe says so, once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo_recipes.contract.run_record import RunRecord, half_of

QUICKSTART = str(Path(__file__).parents[2] / "recipes" / "quickstart.yaml")
# The kernel gives the trainer so much beside what it has when this is imported. Blocks of more than 64 KiB go back when
# they are freed (-3 is M_MMAP_THRESHOLD), so what is needed is the same each time. The limit is lowered a moment later:
# one that a reward lowers while it is imported is put back.
TIGHT = """
import ctypes, resource, threading
ctypes.CDLL(None).mallopt(-3, 1 << 16)
held = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData:")) << 10
limits = (held + (MEBIBYTES << 20), resource.RLIM_INFINITY)
threading.Timer(0.3, resource.setrlimit, (resource.RLIMIT_DATA, limits)).start()

def place(completions, **kwargs):
    return [float(number % 2) for number, _ in enumerate(completions)]
"""
MANY = {
    "rewards": "[{python: tight.py:place}]",
    "generation.max_completion_length": "24",
    "generation.min_tokens": "24",
    "training.prompts_per_step": "16",
    "training.per_device_train_batch_size": "128",
    "training.on_out_of_memory": "halve",
}


def trial(folder: Path, run: Callable[..., Any], mebibytes: int) -> Any:
    """`grpo-run --smoke` of the quickstart with many completions, its code allowed."""
    (folder / "tight.py").write_text(TIGHT.replace("MEBIBYTES", str(mebibytes)))
    settings = [part for key, value in MANY.items() for part in ("--set", f"{key}={value}")]
    words = (QUICKSTART, "--smoke", "--out", "run", *settings)
    sha = run(*words).err.split("--allow-code ")[1].split()[0].rstrip(";,")
    return run(*words, "--allow-code", sha)


def content(folder: Path, name: str) -> dict[str, object]:
    """A JSON file of a run folder."""
    found: dict[str, object] = json.loads((folder / name).read_text())
    return found


@pytest.mark.stack
def test_half_the_micro_batch_trains_the_same_batch_in_a_folder_of_its_own(
    tmp_path: Path, warm_run: Callable[..., Any]
) -> None:
    done = trial(tmp_path, warm_run, 500)
    assert done.code == 0, done.err
    assert "\nsmoke passed, peak memory " in done.out
    assert f"restarted with a micro-batch of 64 instead of 128 in {tmp_path / 'run-halved'}" in done.err
    first, second = content(tmp_path / "run", "run.json"), content(tmp_path / "run-halved", "run.json")
    assert (first["status"], first["begun_anew"]) == ("failed", str(tmp_path / "run-halved"))
    assert (second["status"], second.get("begun_anew")) == ("completed", None)
    whole, half = content(tmp_path / "run", "plan.json"), content(tmp_path / "run-halved", "plan.json")
    assert whole["batch"] == {**half["batch"], "micro_batch": 128, "accumulation": 1, "steps_per_generation": 1}  # type: ignore[dict-item]
    assert (half["batch"]["micro_batch"], half["batch"]["accumulation"]) == (64, 2)  # type: ignore[index]
    rows = {row["key"]: row["origin"] for row in half["settings"]}  # type: ignore[attr-defined]
    assert rows["GRPOConfig.per_device_train_batch_size"] == "--set training.per_device_train_batch_size=64"


@pytest.mark.stack
def test_a_half_that_does_not_fit_either_is_the_end(tmp_path: Path, warm_run: Callable[..., Any]) -> None:
    done = trial(tmp_path, warm_run, 200)
    assert done.code == 1
    assert done.out.count("out of memory in step 1 while updating the policy") == 1
    assert done.out.endswith("smoke failed\n")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("run")) == ["run", "run-halved"]


PATCH = {"path": ["training", "per_device_train_batch_size"], "value": 8, "remove": False}
RECORDS = [
    pytest.param(None, None, id="nothing is known"),
    pytest.param(RunRecord(status="completed"), None, id="completed"),
    pytest.param(RunRecord(status="failed"), None, id="failed without a finding"),
    pytest.param(RunRecord(status="failed", findings=[{"patch": []}, "text"]), None, id="another failure"),
    pytest.param(RunRecord(status="running", findings=[{"patch": [PATCH]}]), None, id="still running"),
    pytest.param(RunRecord(status="failed", findings=[{"patch": [PATCH]}]), 8, id="half is offered"),
]


@pytest.mark.parametrize(("record", "half"), RECORDS)
def test_a_run_begins_anew_only_where_its_record_offers_half(record: RunRecord | None, half: int | None) -> None:
    assert half_of(record) == half
