"""SHM029: the policy never samples the image token, and training completes on each release that supports images."""

from pathlib import Path
from typing import Any

import pytest
from environments import STACKS
from laboratory import Laboratory, Outcome
from rendered import rendered
from support.seeing_models import write_squares

from grpo_recipes.facts.released.windows import is_within

pytestmark = pytest.mark.stacks
RELEASES = [stack for stack in STACKS if is_within(stack.partition("/")[0], ">=0.24")]
OTHER = 70  # a letter that a recipe suppresses


def train(
    laboratory: Laboratory, stack: str, family: str, folder: Path, *, without: tuple[str, ...] = (), **sections: Any
) -> Outcome:
    """Five steps of an untrained model, which soon samples every token, and two evaluations."""
    model = laboratory.run(stack, "image_experiments.model", family=family).result
    data = {
        "path": str(write_squares(folder / "squares", 16)),
        "images": "picture",
        "prompt": "{{ question }}",
        "columns": {"solution": "{{ answer }}"},
    }
    recipe = {
        "recipe": 1,
        "name": "squares",
        "model": {"model_name_or_path": model, "dtype": "float32"},
        "dataset": data,
        "evaluation": {"path": str(write_squares(folder / "held", 4, seed=2)), "every_steps": 0},
        "rewards": [{"name": "completion_length", "options": {"max_characters": 20}}],
        "training": {"prompts_per_step": 2, "max_steps": 5, "gradient_checkpointing": False},
        "grpo": {"num_generations": 8},
        "generation": {"max_completion_length": 32, "use_vllm": False, **sections.pop("generation", {})},
        **sections,
    }
    run = rendered(recipe, stack, folder / "it", without)
    assert run.errors == (), run.errors
    return laboratory.run(stack, "image_experiments.trained", run_folder=str(run.folder))


@pytest.mark.parametrize(
    ("family", "lora"),
    [
        pytest.param("idefics3", None, id="idefics3-full"),
        pytest.param("gemma3", {"r": 4}, id="gemma3-lora"),
        pytest.param("idefics3", {"r": 4}, id="idefics3-lora", marks=pytest.mark.long),
        pytest.param("gemma3", None, id="gemma3-full", marks=pytest.mark.long),
        pytest.param("llava_next", None, id="llava_next-full", marks=pytest.mark.long),
        pytest.param("llava_next", {"r": 4}, id="llava_next-lora", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("stack", RELEASES)
def test_a_model_that_sees_is_trained_to_the_end(
    stack: str, family: str, lora: dict[str, Any] | None, laboratory: Laboratory, tmp_path: Path
) -> None:
    outcome = train(laboratory, stack, family, tmp_path, **({"lora": lora} if lora else {}))

    found = outcome.result
    assert found is not None and found["exit_code"] == 0, outcome.output[-4000:]
    assert found["record"]["step"] == 5 and found["record"]["evaluation"]["blanked"]["count"] == 4
    assert ("image_tokens" in found["record"]["shims"]) == is_within(stack.partition("/")[0], "<1.16")
    assert found["tokens"] > 2000 and found["of images"] == 0


@pytest.mark.parametrize(
    ("stack", "generation"),
    [("0.26.2/4.57.6", {}), (STACKS[-1], {"generation_kwargs": {"suppress_tokens": [OTHER]}})],
)
def test_without_the_shim_the_loss_stops_at_the_token_of_an_image(
    stack: str, generation: dict[str, Any], laboratory: Laboratory, tmp_path: Path
) -> None:
    lost = train(laboratory, stack, "idefics3", tmp_path / "without", generation=generation, without=("image_tokens",))
    assert lost.result["exit_code"] == 1 and lost.result["of images"], "the defect is gone: remove the shim"
    told = ("Image features and image tokens do not match", "source < number of ones in mask")  # transformers 5 and 4
    assert any(words in lost.output for words in told), lost.output[-4000:]

    kept = train(laboratory, stack, "idefics3", tmp_path / "with", generation=generation)
    assert kept.result["exit_code"] == 0, kept.output[-4000:]
    assert kept.result["of images"] == 0
