"""A recipe that goes on from a run starts with the policy that was trained, also in several processes."""

import json
from pathlib import Path

import pytest
from distributed_runs import RECIPE, Run, recipe_run

pytestmark = [pytest.mark.stack, pytest.mark.distributed]

SHORT = {
    "training": {"max_steps": 2, "save_steps": 2, "prompts_per_step": 8, "per_device_train_batch_size": 16},
    "evaluation": {"max_rows": 16, "at_start": True},
}
LORA = {"continued": {"continue": True}, "merged, with a new one": {"r": 4}, "merged": None}


def written(folder: Path, name: str, content: dict[str, object]) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({"recipe": 1, "name": name, **content}))
    return path


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run of one process that the others go on from."""
    folder = tmp_path_factory.mktemp("stages")
    recipe = written(folder, "first", {"extends": str(RECIPE), **SHORT})
    return recipe_run(recipe, "single", folder / "first")


@pytest.mark.parametrize("strategy", ["ddp", "zero3", "fsdp2"])
@pytest.mark.parametrize("kind", LORA)
def test_a_stage_of_two_processes_begins_with_what_was_trained(kind: str, strategy: str, first: Run) -> None:
    assert first.exit_code == 0, first.output
    folder = first.folder.parent
    name = f"{kind.partition(',')[0]}-{kind.count(',')}-{strategy}"
    content = {"extends": "first.yaml", "model": {"from_run": "./first"}, "lora": LORA[kind]}
    run = recipe_run(written(folder, name, content), strategy, folder / name)
    assert run.exit_code == 0, run.output
    assert len(run.steps("reward")) == 2
    assert run.evaluations()["step-0.jsonl"] == first.evaluations()["step-2.jsonl"]
    assert run.evaluations()["step-2.jsonl"] != run.evaluations()["step-0.jsonl"]
