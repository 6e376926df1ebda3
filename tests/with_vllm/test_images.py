"""DAT005 and SHM030: vLLM answers the prompts with images that the loss has, with the weights that are trained."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from digit_first import ACCEPTED, TIMEOUT_S, Record, command, found, proofs
from support.seeing_models import write_squares
from vllm_servers import TORCHVISION, environment, warm

from grpo_recipes.rules.vllm_is_shown_the_images import FAMILIES

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not TORCHVISION.is_dir(), reason="make test-vllm fetches torchvision, which vLLM needs"),
]
WIDTH, STEPS = 64, 4


@pytest.mark.parametrize("family", [FAMILIES[0], *(pytest.param(one, marks=pytest.mark.long) for one in FAMILIES[1:])])
def test_vllm_makes_the_prompt_of_the_loss_of_one_that_has_no_tokens_of_images(family: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [warm(), "-Xwarm", str(Path(__file__).with_name("images_in_vllm.py")), str(tmp_path / "model"), family],
        env=environment(PYTHONPATH=_paths(ROOT, ROOT / "tests"), VLLM_ENABLE_V1_MULTIPROCESSING="0"),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))

    given, answered = seen["of_trl"]
    assert len(answered) > len(given), "the policy would be asked another prompt than the loss has"
    for when in ("at first", "forgotten"):
        assert all(one["same"] and one["greedy"] and one["apart"] < 1e-5 for one in seen[when]), (when, seen[when])
    assert all(one["same"] for one in seen["handed over"])
    # It answers with what the older weights made of the images.
    assert max(one["apart"] for one in seen["handed over"]) > 1e-4


def _paths(*more: Path) -> str:
    return os.pathsep.join(map(str, (*more, TORCHVISION)))


def _written(folder: Path, family: str) -> Path:
    """The folder of an untrained model. Its processor may need torchvision, which is not in this process."""
    written = "import pathlib, sys; from support import seeing_models as s; "
    written += "s.write_seeing_model(pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))"
    variables = environment(PYTHONPATH=_paths(ROOT, ROOT / "tests"))
    subprocess.run([warm(), "-Xwarm", "-c", written, str(folder), family, str(WIDTH)], env=variables, check=True)
    return folder


def _train(
    folder: Path, family: str, per_row: int = 1, code: int = 0, broken: str = "", **sections: Any
) -> tuple[Record, list[Record]]:
    """A run of the command, which vLLM in the training process generates for."""
    data = {"images": "picture", "prompt": "{{ question }}", "columns": {"solution": "{{ answer }}"}}
    recipe = {
        "recipe": 1,
        "name": "squares",
        "seed": 1,
        "model": {"model_name_or_path": str(_written(folder / "model", family)), "dtype": "float32"},
        "dataset": {"path": str(write_squares(folder / "squares", 16, per_row)), **data},
        "evaluation": {"path": str(write_squares(folder / "held", 4, per_row, seed=2)), "every_steps": 0},
        "rewards": [{"name": "completion_length", "options": {"max_characters": 20}}],
        "training": {"prompts_per_step": 2, "max_steps": STEPS, "learning_rate": 1e-2, "gradient_checkpointing": False},
        "grpo": {"num_generations": 8},
        "generation": {
            "use_vllm": True,
            "max_completion_length": 16,
            "vllm_max_model_length": 256,
            "vllm_engine": {"enforce_eager": True},
        },
        **sections,
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    variables = {"PYTHONPATH": _paths(), **({"GRPO_TEST_IMAGES": broken} if broken else {})}
    process = command(str(folder / "recipe.yaml"), "--out", str(folder / "run"), *ACCEPTED, **variables)
    said, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == code, said[-6000:]
    return found(folder)


_LORA = {"lora": {"r": 4}}
TRAININGS = [
    pytest.param("idefics3", 1, {}, id="idefics3", marks=pytest.mark.long),
    pytest.param("qwen2_vl", 2, _LORA, id="qwen2_vl with LoRA and two images"),
    pytest.param("qwen2_vl", 1, {}, id="qwen2_vl", marks=pytest.mark.long),
    pytest.param("idefics3", 2, _LORA, id="idefics3 with LoRA and two images", marks=pytest.mark.long),
    *(
        pytest.param(family, 1, more, id=f"{family} {'with LoRA' if more else ''}", marks=pytest.mark.long)
        for family in ("smolvlm", "qwen2_5_vl")
        for more in ({}, _LORA)
    ),
]


@pytest.mark.parametrize(("family", "per_row", "more"), TRAININGS)
def test_it_trains_on_what_vllm_answers_to_images(family: str, per_row: int, more: Record, tmp_path: Path) -> None:
    record, steps = _train(tmp_path, family, per_row, **more)

    assert "they are compared" in record["shims"]["vllm_images"]
    assert len(steps) == STEPS
    assert {proof["ok"] for proof in record["proofs"]} == {True}
    assert {"PRF010", "PRF011", "PRF037"} <= set(proofs(record))
    assert "weights reach vLLM" in proofs(record)["PRF011"]["shown"]
    for moment in ("before", "after", "blanked"):
        assert record["evaluation"][moment]["count"] == 4


# What is broken, and what ends the run.
BROKEN = [
    pytest.param("tokens", "vLLM and the loss have different prompts", id="a prompt with the tokens of images"),
    pytest.param("shown", "[PRF010]", id="vLLM is shown the images of other rows", marks=pytest.mark.long),
    pytest.param("given", "PRF037", id="TRL gives vLLM the images of other rows", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("how", "says"), BROKEN)
def test_what_differs_from_the_loss_ends_the_run(how: str, says: str, tmp_path: Path) -> None:
    record, steps = _train(tmp_path, "idefics3", code=3, broken=how)

    assert not steps
    if how == "given":
        assert proofs(record)[says]["ok"] is False
    else:
        assert says in record["message"]
    if how == "shown":
        assert proofs(record)["PRF037"]["ok"] is True, "it sees what TRL gives vLLM"
