"""What the loaded data, model and tokenizer say of themselves is what the plan was made with, or nothing trains."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.plans import small_plan
from worker_runs import Changes, Trained, environment, planned_data, planned_model

from grpo_recipes.contract.plan import Data, Model
from grpo_recipes.user_files.digests import file_content, folder_content
from grpo_recipes.user_files.template import chat_template_of
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker._shared.verified import LARGEST_CHECKED_BYTES, check_model_files
from grpo_recipes.worker.checkpoints.checkpoint import package_versions
from grpo_recipes.worker.run import check_releases

ROWS = [{"question": f"{number}+1=", "answer": str(number + 1)} for number in range(40)]


def _lines(rows: list[dict[str, str]], end: str = "\n") -> str:
    return "".join(json.dumps(row) + end for row in rows)


def test_a_models_files_are_the_planned_ones(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "weights").write_bytes(b"w" * (LARGEST_CHECKED_BYTES + 1))
    content = folder_content(str(tmp_path))
    assert content is not None
    model = Model(**planned_model(tmp_path, files=content.files))
    check_model_files(model)
    with (tmp_path / "weights").open("r+b") as file:
        file.write(b"x")
    check_model_files(model)  # weights are read by who writes the run folder
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(Refused, match=r"config\.json changed since the plan was made"):
        check_model_files(model)
    (tmp_path / "config.json").unlink()
    with pytest.raises(Refused, match=r"config\.json does not exist"):
        check_model_files(model)


@pytest.mark.stack
@pytest.mark.parametrize(
    "text",
    [_lines(ROWS), _lines(ROWS).rstrip(), _lines(ROWS, "\r\n"), "\n" + _lines(ROWS, "\n\n") + "\n"],
    ids=["lines", "no-last-end", "windows", "blank-lines"],
)
def test_the_planned_rows_of_a_file_are_those_that_are_loaded(tmp_path: Path, text: str) -> None:
    from grpo_recipes.worker.data.dataset import load_rows

    path = tmp_path / "rows.jsonl"
    path.write_bytes(text.encode())
    seen: dict[str, object] = {}
    load_rows(Data(**planned_data(path, max_rows=3)), "dataset", tmp_path / "cache", seen)
    assert seen["dataset.rows"] == file_content(str(path), count_rows=True).rows == len(ROWS)


@pytest.mark.stack
def test_the_fingerprint_is_of_the_rows_and_not_of_their_file(tmp_path: Path) -> None:
    from datasets import Dataset

    from grpo_recipes.worker._shared.verified import facts_of_rows

    rows = Dataset.from_list(ROWS)
    rows.to_parquet(tmp_path / "rows.parquet")
    again = Dataset.from_parquet(str(tmp_path / "rows.parquet"), cache_dir=str(tmp_path / "cache"))
    first = facts_of_rows("dataset", rows)
    assert facts_of_rows("dataset", again) == first
    assert (
        facts_of_rows("dataset", rows.select(range(39, -1, -1)))["dataset.fingerprint"] != first["dataset.fingerprint"]
    )
    other = Dataset.from_list([*ROWS[:-1], {"question": "39+1=", "answer": "41"}])
    assert facts_of_rows("dataset", other)["dataset.fingerprint"] != first["dataset.fingerprint"]
    many = Dataset.from_list([{"n": number} for number in range(5000)])
    assert facts_of_rows("dataset", many)["dataset.rows"] == 5000
    cut = facts_of_rows("dataset", many.select(range(4999)))
    assert cut["dataset.fingerprint"] != facts_of_rows("dataset", many)["dataset.fingerprint"]
    assert facts_of_rows("dataset", many.select([7]))["dataset.rows"] == 1


LOADS = """
import sys
from dataclasses import replace
from types import SimpleNamespace
import huggingface_hub
from transformers import AutoModelForCausalLM
from support.plans import small_plan
from grpo_recipes.contract.plan import Model
from grpo_recipes.worker._shared.verified import facts_of_trainer
huggingface_hub.constants.HF_HUB_CACHE = sys.argv[1]
model = AutoModelForCausalLM.from_pretrained("team/small")
trainer = SimpleNamespace(model=model, processing_class=None)
print(facts_of_trainer(trainer, replace(small_plan(), model=Model("hub", "team/small")))["model.commit"])
"""


@pytest.mark.stack
def test_the_commit_of_a_hub_model_is_known_after_it_was_loaded(
    warm_python: Path, tiny_model: Path, tmp_path: Path
) -> None:
    """transformers 5.23 keeps it in no configuration."""
    commit = "0123456789" * 4
    cached = tmp_path / "models--team--small"
    shutil.copytree(tiny_model, cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    known = environment(PYTHONPATH=os.pathsep.join(sys.path))
    command = [str(warm_python / "python"), "-Xwarm", "-c", LOADS, str(tmp_path)]
    done = subprocess.run(command, env=known, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1:] == [commit], done.stderr[-2000:]


@pytest.mark.stack
def test_what_was_found_is_kept_and_a_difference_stops_the_run(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], sums: Path, tiny_model: Path
) -> None:
    arguments = {"max_steps": 2}
    planned = {"dataset.rows": 3, "model.commit": "x"}
    stopped = trained(make_plan(arguments=arguments, verified=planned))
    assert (stopped.exit_code, stopped.record["status"]) == (3, "stopped")
    count = len(sums.read_text().splitlines())
    assert f"dataset.rows: plan 3, found {count}" in stopped.record["message"]
    assert "model.commit" not in stopped.record["message"], "what cannot be found is not compared"
    found = stopped.record["verified"]
    assert found["dataset.rows"] == count
    assert found["chat_template"] == hashlib.sha256(str(chat_template_of(str(tiny_model))).encode()).hexdigest()
    assert trained(make_plan(arguments=arguments, verified=planned, accept_drift=True)).exit_code == 0
    assert trained(make_plan(arguments=arguments, verified=found)).exit_code == 0


@pytest.mark.stack
def test_an_image_with_other_releases_than_the_plan_trains_nothing() -> None:
    here = package_versions()
    job = {"container": {"image": "/images/run.sqsh", "runtime": "pyxis"}}
    packages = {**here, "trl": "0.23.1", "deepspeed": None, "vllm": "0.30.0"}
    plan = small_plan(stack={"packages": packages}, job=job)
    with pytest.raises(Refused, match="the image's releases differ from the plan's") as refused:
        check_releases(plan)
    assert f"trl: plan 0.23.1, here {here['trl']}" in str(refused.value)
    assert f"deepspeed: plan none, here {here['deepspeed']}" in str(refused.value)
    check_releases(replace(plan, accept_drift=True))
    check_releases(replace(plan, job={}))
    check_releases(replace(plan, stack={"packages": {"trl": here["trl"]}}))
