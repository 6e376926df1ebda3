"""A vision model trains the same under ZeRO and FSDP2 as with DDP: rewards, losses, held-out answers and weights."""

import hashlib
import json
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import pytest
from distributed_runs import STEPS, Run, recipe_run
from safetensors import safe_open
from support.seeing_models import write_seeing_model, write_squares

pytestmark = [pytest.mark.stack, pytest.mark.distributed]
CLOSE = 1e-5
LORA = {"LoRA": {"lora": {"r": 4}}, "LoRA, lm_head": {"lora": {"r": 4, "modules_to_save": ["lm_head"]}}}
EVEN = """
def even(completions, images, **kwargs):
    assert all(len(of_row) == 1 for of_row in images)
    texts = [completion[0]["content"] for completion in completions]
    return [sum(ord(letter) % 2 for letter in text) / max(len(text), 1) for text in texts]
"""


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """The run of a family, of all weights or LoRA, and of a strategy, made once."""
    folder = tmp_path_factory.mktemp("seeing")
    rows, held = write_squares(folder / "rows"), write_squares(folder / "held", 5, seed=2)
    (folder / "mine.py").write_text(EVEN)

    @cache
    def run(family: str, kind: str, strategy: str) -> Run:
        if not (model := folder / family).exists():
            write_seeing_model(model, family)
        recipe = {
            "recipe": 1,
            "name": family,
            "model": {"model_name_or_path": str(model), "dtype": "float32"},
            "dataset": {"path": str(rows), "images": "picture", "prompt": "{{ question }}"},
            "rewards": [{"python": "mine.py:even"}],
            "evaluation": {"path": str(held), "every_steps": 2, "greedy": True},
            "training": {
                "prompts_per_step": 4,
                "per_device_train_batch_size": 4,
                "max_steps": STEPS,
                "learning_rate": 1e-3,
                "adam_epsilon": 1e-4,
                "gradient_checkpointing": False,
            },
            "grpo": {"num_generations": 4},
            "generation": {"max_completion_length": 6},
            **LORA.get(kind, {}),
        }
        if strategy == "zero3":
            own = {"zero_optimization": {"stage3_param_persistence_threshold": 0}}
            recipe["distributed"] = {"deepspeed": own}
        (file := folder / f"{family}-{kind}-{strategy}.yaml").write_text(json.dumps(recipe))
        allowed = ("--allow-code", hashlib.sha256(EVEN.encode()).hexdigest())
        return recipe_run(file, strategy, folder / file.stem, *allowed)

    return run


def _trained(run: Run) -> dict[str, Any]:
    """Its trained tensors, by their names in memory."""
    from peft import PeftModel
    from transformers import AutoModelForImageTextToText

    final = run.folder / "final"
    base = json.loads((run.folder / "plan.json").read_text())["model"]["path"]
    if (final / "adapter_config.json").exists():
        model = PeftModel.from_pretrained(AutoModelForImageTextToText.from_pretrained(base), final)
    else:
        model, loaded = AutoModelForImageTextToText.from_pretrained(final, output_loading_info=True)
        assert not loaded["missing_keys"] and not loaded["unexpected_keys"]
    return dict(model.named_parameters())


def _names(run: Run) -> set[str]:
    """The names of the tensors in `final`."""
    names = set[str]()
    for file in (run.folder / "final").glob("*.safetensors"):
        with safe_open(file, "pt") as opened:
            names.update(opened.keys())
    return names


@pytest.mark.parametrize(
    ("family", "kind", "strategy"),
    [
        *product(["idefics3", "llava_next", "gemma3"], ["full", "LoRA"], ["zero2", "zero3"]),
        *product(["idefics3"], ["full", *LORA], ["fsdp2"]),
    ],
)
def test_shards_train_on_images_as_ddp_does(family: str, kind: str, strategy: str, run_of: Callable[..., Run]) -> None:
    run, reference = (run_of(family, kind, one) for one in (strategy, "ddp"))
    for one in (run, reference):
        assert one.exit_code == 0, one.output
        proofs = json.loads((one.folder / "run.json").read_text())["proofs"]
        assert len(one.steps("reward")) == STEPS and "PRF037" in [proof["id"] for proof in proofs if proof["ok"]]
    assert any(loss for loss in run.steps("loss"))
    assert run.steps("reward") == reference.steps("reward")
    assert run.steps("loss") == pytest.approx(reference.steps("loss"), abs=CLOSE)
    assert run.steps("grad_norm") == pytest.approx(reference.steps("grad_norm"), rel=CLOSE)
    assert run.evaluations() == reference.evaluations()
    blanked = [json.loads((one.folder / "run.json").read_text())["evaluation"]["blanked"] for one in (run, reference)]
    assert blanked[0] == blanked[1]
    names, expected = _names(run), _names(reference)
    if (family, kind, strategy) == ("gemma3", "full", "zero2"):
        expected |= {"lm_head.weight"}  # accelerate copies tied weights, so transformers writes both
    assert names == expected, "other tools read weights by these names"
    weights, others = _trained(run), _trained(reference)
    assert max(float((weights[name] - others[name]).detach().abs().max()) for name in others) < CLOSE
    first = [run_of(family, kind, one).evaluations()["step-0.jsonl"] for one in ("single", strategy)]
    assert first[0] == first[1], "one process starts from the same policy"
