"""Two processes train on images as one does: the same rewards, losses, gradients, held-out answers and weights."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from environments import STACKS
from laboratory import Laboratory
from rendered import rendered
from support.seeing_models import NEEDS_TORCHVISION, write_squares

pytestmark = pytest.mark.stacks
STEPS = 3


RELEASES = ("0.26.2/4.57.6", "1.9.0/5.23.0", STACKS[-1])
CLOSE = 1e-5
LACKS_TORCHVISION = find_spec("torchvision") is None
CASES = [
    pytest.param(
        family,
        kind,
        marks=[
            pytest.mark.skipif(family in NEEDS_TORCHVISION and LACKS_TORCHVISION, reason="it needs torchvision"),
            *([] if (family, kind) in {("idefics3", "full"), ("gemma3", "LoRA")} else [pytest.mark.long]),
        ],
    )
    for family in ("idefics3", "llava_next", "gemma3", "qwen2_vl", "qwen2_5_vl")
    for kind in ("full", "LoRA")
]


def of_processes(
    count: int, laboratory: Laboratory, stack: str, family: str, kind: str, folder: Path
) -> tuple[list[dict[str, Any]], dict[str, str], dict[str, Any]]:
    """The figures of each step, the held-out answers and the trained tensors of a run of this many processes."""
    model = laboratory.run(stack, "image_experiments.model", family=family).result
    assert model is not None
    data = {"path": str(write_squares(folder / "rows")), "images": "picture", "prompt": "{{ question }}"}
    recipe = {
        "recipe": 1,
        "name": "squares",
        "model": {"model_name_or_path": model, "dtype": "float32"},
        "dataset": data,
        "evaluation": {"path": str(write_squares(folder / "held", 5, seed=2)), "every_steps": 2, "greedy": True},
        "rewards": [{"name": "completion_length", "options": {"max_characters": 4}}],
        "training": {
            "prompts_per_step": 4,
            "per_device_train_batch_size": 8 // count,
            "max_steps": STEPS,
            "learning_rate": 1e-3,
            "adam_epsilon": 1e-4,
            "gradient_checkpointing": False,
        },
        "grpo": {"num_generations": 4},
        "generation": {"max_completion_length": 6, "use_vllm": False},
        "launch": {"num_processes": count},
        **({"lora": {"r": 4}} if kind == "LoRA" else {}),
    }
    run = rendered(recipe, stack, folder / "it")
    assert run.folder is not None, run.errors
    outcome = laboratory.run(stack, "image_experiments.dictated", ranks=count, run_folder=str(run.folder))
    assert [rank.result for rank in outcome.ranks] == [0] * count, outcome.output[-4000:]
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    answers = {path.name: path.read_text() for path in (run.folder / "evaluation").iterdir()}
    weights = torch.load(outcome.folder / "weights.pt")
    return [line for line in lines if line["event"] == "step"], answers, weights


@pytest.mark.parametrize(("family", "kind"), CASES)
@pytest.mark.parametrize("stack", RELEASES)
def test_two_processes_train_on_images_as_one_does(
    stack: str, family: str, kind: str, laboratory: Laboratory, tmp_path: Path
) -> None:
    (steps, answers, weights), (others, same_answers, same_weights) = (
        of_processes(count, laboratory, stack, family, kind, tmp_path / str(count)) for count in (1, 2)
    )
    assert len(steps) == STEPS and all(step["grad_norm"] and step["reward_std"] for step in steps)
    for name, margin in {"reward": 0, "completions/mean_length": 0, "loss": CLOSE, "grad_norm": CLOSE}.items():
        assert [step[name] for step in others] == pytest.approx([step[name] for step in steps], rel=margin, abs=CLOSE)
    assert answers == same_answers and len(answers) == 3
    assert weights.keys() == same_weights.keys()
    assert max(float((weights[name] - same_weights[name]).abs().max()) for name in weights) < CLOSE
