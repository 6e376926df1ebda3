"""SHM031: a row of text among rows with images is trained as it is alone, on each family and on two processes.

The experiments compare tokens, pixels and log-probabilities row by row.
"""

import json
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support.seeing_models import NEEDS_TORCHVISION, write_seeing_model, write_squares
from test_several_processes import DDP_YAML
from test_training_on_images import commands
from worker_runs import environment, events, record

from grpo_recipes.contract.prompt_shape import TEXT_BESIDE_IMAGES

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("warm")]
EXACT = 3e-6
FAMILIES = [
    pytest.param(
        family,
        marks=pytest.mark.skipif(
            family in NEEDS_TORCHVISION and find_spec("torchvision") is None, reason="its processor needs torchvision"
        ),
    )
    for family in TEXT_BESIDE_IMAGES
]
# In the first case, the images of a generation are as many as its rows, although one row has two and another none.
LAYOUTS: dict[str, dict[str, Any]] = {
    "as many images as rows": {
        "images": [2, 0, 1, 1, 0, 1],
        "grpo": {"per_device_train_batch_size": 8, "num_iterations": 2, "beta": 0.1},
    },
    "micro-batches of text": {
        "images": [1, 0, 2, 0, 0, 1],
        "grpo": {"per_device_train_batch_size": 2, "steps_per_generation": 4, "gradient_accumulation_steps": 2},
    },
    "generations of text": {"images": [0, 0, 0, 0, 1, 0], "grpo": {"per_device_train_batch_size": 4}},
}
# A micro-batch of text is one without a tile in the tensors of Idefics3, and one without images elsewhere. A generation
# of text is made the same way for all families.
CASES = [
    ("as many images as rows", "idefics3"),
    *(pytest.param("as many images as rows", family, marks=pytest.mark.long) for family in ("llava_next", "gemma3")),
    *(("micro-batches of text", family) for family in ("idefics3", "gemma3")),
    ("generations of text", "llava_next"),
]
CASES_OF_TORCHVISION = [
    pytest.param(layout, *family.values, marks=family.marks)
    for layout in LAYOUTS
    for family in FAMILIES
    if family.values[0] in NEEDS_TORCHVISION
]
TRAINING = {"prompts_per_step": 2, "per_device_train_batch_size": 4, "max_steps": 2, "save_steps": 1}
MIXED = """
def even(completions, images, prompts, **kwargs):
    for of_row, prompt in zip(images, prompts, strict=True):
        shown = [part for part in prompt[-1]["content"] if part["type"] == "image"]
        assert len(shown) == len(of_row) <= 1, prompt
    texts = [completion[0]["content"] for completion in completions]
    return [sum(ord(letter) % 2 for letter in text) / max(len(text), 1) for text in texts]
"""


@pytest.fixture(scope="module")
def found_of(warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[dict[str, Any]]]:
    """What each process of an experiment found."""
    folder = tmp_path_factory.mktemp("text_rows")
    (folder / "ddp.yaml").write_text(DDP_YAML)

    def found(family: str, processes: int = 1, *, code: int = 0, **case: Any) -> list[dict[str, Any]]:
        if not (folder / family).exists():
            write_seeing_model(folder / family, family)
        for file in folder.glob("found-*.json"):
            file.unlink()
        started = ["-m", "accelerate.commands.launch", "--config_file", str(folder / "ddp.yaml")]
        script = str(Path(__file__).with_name("text_rows_experiment.py"))
        command = [str(warm_python / "python"), *(started if processes > 1 else ["-Xwarm"]), script, str(folder)]
        done = subprocess.run(
            [*command, json.dumps({"family": family, **case})],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert done.returncode == code, done.stderr[-3000:]
        if code:
            return [{"error": done.stderr}]
        return [json.loads((folder / f"found-{rank}.json").read_text()) for rank in range(processes)]

    return found


def assert_each_row_is_trained_as_alone(found: dict[str, Any]) -> None:
    for passes in (found["losses"], found["generations"]):
        assert passes["rows"] > passes["of text"] > 0
        assert passes["other tokens"] == passes["other pixels"] == 0
    assert found["apart"] < EXACT and (found["old apart"] or 0.0) < EXACT
    assert all(norm == norm for _, norm in found["steps"])


@pytest.mark.parametrize(("name", "family"), [*CASES, *CASES_OF_TORCHVISION])
def test_each_row_gets_its_own_images_and_a_row_of_text_none(
    name: str, family: str, found_of: Callable[..., list[dict[str, Any]]]
) -> None:
    (found,) = found_of(family, **LAYOUTS[name])

    if name == "generations of text":
        assert found["generations"]["of text"] >= found["generations"]["rows"] - 2
        assert found["losses"]["batches of text"] >= 2
    elif name == "micro-batches of text":
        assert found["losses"]["batches of text"] > 0
    assert_each_row_is_trained_as_alone(found)


def test_without_the_shim_trl_refuses_such_rows(found_of: Callable[..., list[dict[str, Any]]]) -> None:
    (found,) = found_of("idefics3", shim=False, code=1, images=[1, 0], grpo={"per_device_train_batch_size": 4})

    assert "but got type=<class 'NoneType'>" in found["error"], "the defect is gone: remove the shim"


@pytest.mark.distributed
@pytest.mark.parametrize("family", [one for one in FAMILIES if one.values[0] in ("idefics3", "llava_next", "gemma3")])
def test_a_process_may_have_text_alone(family: str, found_of: Callable[..., list[dict[str, Any]]]) -> None:
    grpo = {
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2,
        "shuffle_dataset": False,
        "learning_rate": 1e-3,
    }

    first, second = found_of(family, 2, images=[1, 0, 2, 0, 0, 1, 0, 0], grpo={**grpo, "max_steps": 3})

    for found in (first, second):
        assert_each_row_is_trained_as_alone(found)
    assert second["losses"]["batches of text"] > 0
    assert first["steps"] == second["steps"] and first["weights"] == second["weights"]
    assert first["logged"] == second["logged"] == [1, 1, 0, 0, 2, 2, 0, 0]


@pytest.fixture
def mixed(tmp_path: Path) -> Callable[..., Path]:
    """The folder of a recipe of 12 rows and 9 held-out ones, in which every third row is text."""

    def written(family: str = "idefics3", **changes: Any) -> Path:
        write_seeing_model(tmp_path / "model", family)
        for name, count in (("rows", 12), ("held", 9)):
            file = write_squares(tmp_path / name, count, seed=count)
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            rows = [
                {**row, "question": f"{row['question']} {place}", **({"picture": None} if place % 3 == 1 else {})}
                for place, row in enumerate(rows)
            ]
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        (tmp_path / "mine.py").write_text(MIXED)
        recipe = {
            "recipe": 1,
            "name": "mixed",
            "model": {"model_name_or_path": "./model", "dtype": "float32"},
            "dataset": {"path": "./rows/squares.jsonl", "images": "picture", "prompt": "{{ question }}"},
            "evaluation": {"path": "./held/squares.jsonl", "every_steps": 2},
            "rewards": [{"python": "mine.py:even"}],
            "training": TRAINING,
            "grpo": {"num_generations": 4},
            "generation": {"max_completion_length": 6, "use_vllm": False},
            **changes,
        }
        (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
        return tmp_path

    return written


@pytest.mark.parametrize(
    ("family", "lora"),
    [
        pytest.param("idefics3", {"r": 4}, id="idefics3-lora"),
        pytest.param("llava_next", None, id="llava_next-full", marks=pytest.mark.long),
    ],
)
def test_a_recipe_with_rows_of_text_is_looked_at_trained_and_evaluated(
    family: str, lora: Any, mixed: Callable[..., Path]
) -> None:
    folder = mixed(family, **({"lora": lora} if lora else {}))

    looked = commands(folder, "preflight", "recipe.yaml", "--allow-code", "here")
    commands(folder, "recipe.yaml", "--out", "run", "--allow-code", "here")

    assert "4 of 12 rows have none, and are trained as text" in looked
    assert record(folder / "run")["shims"]["text_rows"] == "4 of 12 rows are text"
    assert "4 of 12 rows have no image, and are trained as text" in (folder / "run" / "train.log").read_text()
    assert "PRF037" in [proof["id"] for proof in record(folder / "run")["proofs"] if proof["ok"]]
    evaluation = record(folder / "run")["evaluation"]
    assert (evaluation["after"]["count"], evaluation["blanked"]["count"]) == (9, 6), "grey images replace images alone"
    assert len(events(folder / "run", "step")) == 2


def test_a_first_step_of_text_does_not_use_the_tensor_between_lines_of_an_image(mixed: Callable[..., Path]) -> None:
    training = {**TRAINING, "max_steps": 1, "shuffle_dataset": False}
    folder = mixed("llava_next", evaluation=None, training=training)
    file = folder / "rows" / "squares.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows = [{**row, "picture": row["picture"] if row == rows[-1] else None} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    commands(folder, "recipe.yaml", "--out", "run", "--allow-code", "here")

    assert "21/21 trainable tensors, 44 in modules that took no part" in (folder / "run" / "train.log").read_text()


def test_held_out_rows_and_the_first_of_the_training_may_be_text_alone(mixed: Callable[..., Path]) -> None:
    folder = mixed()
    for name, texts in (("rows", 4), ("held", 9)):
        file = folder / name / "squares.jsonl"
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        rows = [{**row, **({"picture": None} if place < texts else {})} for place, row in enumerate(rows)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    few = ("--set", "dataset.max_rows=4", "--set", "training.max_steps=1", "--allow-code", "here")

    commands(folder, "preflight", "recipe.yaml", *few)
    commands(folder, "recipe.yaml", "--out", "run", *few)

    assert record(folder / "run")["evaluation"]["after"]["count"] == 9
    assert "blanked" not in record(folder / "run")["evaluation"]
    (shown,) = [one for one in record(folder / "run")["proofs"] if one["id"] == "PRF037"]
    assert shown["ok"] is None, "no image was there to be proved"


@pytest.mark.long
def test_a_run_with_rows_of_text_resumes(mixed: Callable[..., Path]) -> None:
    folder = mixed(evaluation=None, training={**TRAINING, "lr_scheduler_type": "constant"})
    commands(folder, "recipe.yaml", "--out", "whole", "--allow-code", "here")
    commands(folder, "recipe.yaml", "--out", "half", "--allow-code", "here", "--set", "training.max_steps=1")

    commands(folder, "half", "--extend", "training.max_steps=2", "--out", "again")

    final = [folder / name / "final" / "model.safetensors" for name in ("whole", "again")]
    assert final[0].read_bytes() == final[1].read_bytes()
    assert record(folder / "again")["shims"]["text_rows"] == "4 of 12 rows are text"


def test_a_model_that_sees_trains_on_text_alone(mixed: Callable[..., Path]) -> None:
    folder = mixed("llava_next", training={**TRAINING, "max_steps": 1})
    recipe = json.loads((folder / "recipe.yaml").read_text())
    for section, name in (("dataset", "rows"), ("evaluation", "held")):
        rows = recipe[section]
        rows.pop("images", None)
        file = folder / name / "squares.jsonl"
        kept = [{key: row[key] for key in ("question", "answer")} for row in map(json.loads, file.open())]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
        rows["path"] = f"./{name}.jsonl"
    recipe["rewards"] = [{"name": "completion_length", "options": {"max_characters": 20}}]
    (folder / "recipe.yaml").write_text(json.dumps(recipe))

    commands(folder, "preflight", "recipe.yaml")
    commands(folder, "recipe.yaml", "--out", "run")

    assert record(folder / "run")["status"] == "completed"
    assert "blanked" not in record(folder / "run")["evaluation"]


@pytest.mark.parametrize(
    ("family", "said"),
    [("paligemma", "nothing has shown that paligemma trains them")],
)
def test_a_row_of_text_that_cannot_be_trained_is_named(family: str, said: str, mixed: Callable[..., Path]) -> None:
    folder = mixed(family, evaluation=None)

    for command in (["preflight", "recipe.yaml"], ["recipe.yaml", "--out", "run"]):
        accepted = ("--allow-code", "here", "--accept", "DAT005")
        told = commands(folder, *command, *accepted, code=2 if command[0] == "preflight" else 3)
        assert "row 2 has no image" in told and "4 of 12 rows have none" in told and said in told
