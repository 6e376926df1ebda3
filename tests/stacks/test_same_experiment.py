"""One recipe is the same experiment on every stack that can express it: the gradient of every step is the same vector.

Four prompts of unequal length (so they are padded), four completions each, of unequal length, one of them truncated;
three steps of SGD in float32, two accumulation steps, a KL term. The reference is reference.py, in float64.
"""

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from environments import STACKS
from laboratory import Laboratory
from rendered import Recipe, Rendered, rendered
from small_model import END, WORDS, prompt_tokens, text_of, write_small_model
from stacks_table import SAME_EXPERIMENT, StacksTable

if TYPE_CHECKING:  # the tests import them when they run, since they import torch
    from reference import Sample, Tensors

pytestmark = pytest.mark.stacks

TOLERANCE = 1e-5
STEPS, LEARNING_RATE, BETA, LONGEST = 3, 0.5, 0.04, 12
QUESTIONS = ("1+2=", "14+3=", "abc", "abcdefgh+1=")
LENGTHS = (2, 5, 9, LONGEST)
SLOPE = 20
LORA = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear"}
# The releases of TRL that have the loss; the others must refuse it. From their source.
EXPRESSED = {
    "grpo": lambda stack: not stack.startswith("0.16."),
    "bnpo": lambda stack: not stack.startswith(("0.14.", "0.15.")),
    "dr_grpo": lambda stack: not stack.startswith(("0.14.", "0.15.", "0.16.")),
    "dapo": lambda stack: not stack.startswith(("0.14.", "0.15.", "0.16.", "0.19.")),
}
KINDS = [("grpo", "full"), ("grpo", "LoRA"), ("bnpo", "full"), ("dr_grpo", "full"), ("dapo", "full"), ("dapo", "LoRA")]


def completions() -> list[tuple[list[int], list[list[int]]]]:
    """For each prompt four completions; those shorter than the longest end with the end token."""
    draw = random.Random(0)
    letters = range(WORDS.index(END) + 1, len(WORDS))
    return [
        (
            prompt_tokens(question),
            [
                draw.choices(letters, k=n if n == LONGEST else n - 1) + [WORDS.index(END)] * (n < LONGEST)
                for n in LENGTHS
            ],
        )
        for question in QUESTIONS
    ]


def samples() -> "list[Sample]":
    """The same with their rewards: those of the recipe, worked out by hand."""
    from reference import Sample

    return [
        Sample(group, tuple(prompt), tuple(tokens), (SLOPE - len(text_of(tokens))) / SLOPE)
        for group, (prompt, answers) in enumerate(completions())
        for tokens in answers
    ]


def recipe(folder: Path, loss_type: str, kind: str, **changes: Any) -> Recipe:
    """The recipe of the experiment. changes: section=values."""
    whole_batch = len(QUESTIONS) * len(LENGTHS)
    sections: Recipe = {
        "recipe": 1,
        "name": "same",
        "seed": 7,
        "model": {"model_name_or_path": str(folder / "model")},
        "dataset": {"path": str(folder / "rows.jsonl"), "prompt": "{{ question }}"},
        "rewards": [{"name": "completion_length", "options": {"max_characters": SLOPE}}],
        "generation": {"use_vllm": False, "max_completion_length": LONGEST, "temperature": 1.0, "top_k": 50},
        "grpo": {
            "num_generations": len(LENGTHS),
            "beta": BETA,
            "loss_type": loss_type,
            "use_bias_correction_kl": False,
        },
        "training": {
            "prompts_per_step": len(QUESTIONS),
            # bnpo is defined by its micro-batch, so it gets one; elsewhere the gradient is gathered from two
            "per_device_train_batch_size": whole_batch if loss_type == "bnpo" else whole_batch // 2,
            "learning_rate": LEARNING_RATE,
            "lr_scheduler_type": "constant",
            "optim": "sgd",
            "weight_decay": 0.0,
            "max_grad_norm": 1e9,
            "max_steps": STEPS,
            "gradient_checkpointing": False,
            "save_steps": 0,
        },
    }
    if kind != "full":
        sections["lora"] = LORA
    return {**sections, **{name: {**sections.get(name, {}), **values} for name, values in changes.items()}}


def for_release(stack: str, wanted: Recipe) -> Recipe:
    """The recipe with the micro-batch left to the machine on trl 0.14, whose micro-batch is one prompt."""
    if not stack.startswith("0.14."):
        return wanted
    return {**wanted, "training": {**wanted["training"], "per_device_train_batch_size": "auto"}}


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model and the rows."""
    folder = tmp_path_factory.mktemp("same")
    write_small_model(folder / "model")
    (folder / "rows.jsonl").write_text("".join(json.dumps({"question": each}) + "\n" for each in QUESTIONS))
    return folder


@pytest.fixture(scope="session")
def wanted(inputs: Path) -> "Callable[..., list[Tensors]]":
    """The gradients of the reference, computed once for full fine-tuning."""
    from reference import Adapter, Algorithm, gradients

    @cache
    def full(loss_type: str, temperature: float) -> "list[Tensors]":
        algorithm = Algorithm(loss_type, BETA, LEARNING_RATE, LONGEST, temperature)
        return gradients(inputs / "model", samples(), algorithm, STEPS)

    def made(loss_type: str, first: "Tensors", temperature: float = 1.0) -> "list[Tensors]":
        if not any("lora" in name for name in first):
            return full(loss_type, temperature)
        algorithm = Algorithm(loss_type, BETA, LEARNING_RATE, LONGEST, temperature)
        adapter = Adapter(first, LORA["lora_alpha"] / LORA["r"])
        return gradients(inputs / "model", samples(), algorithm, STEPS, adapter)

    return made


def run(laboratory: Laboratory, stack: str, made: Rendered) -> "tuple[list[Tensors], dict[str, Any]]":
    """What was kept of a run, and its answer."""
    import torch

    outcome = laboratory.run(stack, "trained_runs.gradients", run_folder=str(made.folder), completions=completions())
    assert outcome.result is not None and outcome.result["exit_code"] == 0, outcome.output[-4000:]
    return torch.load(outcome.result["file"]), outcome.result


def _differences(found: "list[Tensors]", wanted: "list[Tensors]") -> list[float]:
    """Of each step, relative to what is wanted."""
    from reference import relative_difference

    return [relative_difference(one, right) for one, right in zip(found, wanted, strict=True)]


@pytest.mark.parametrize(("loss_type", "kind"), KINDS, ids=[f"{loss}-{kind}" for loss, kind in KINDS])
@pytest.mark.parametrize("stack", STACKS)
def test_the_gradient_of_every_step_is_that_of_the_reference(
    stack: str,
    loss_type: str,
    kind: str,
    inputs: Path,
    wanted: "Callable[..., list[Tensors]]",
    laboratory: Laboratory,
    stacks_table: StacksTable,
    tmp_path: Path,
) -> None:
    made = rendered(for_release(stack, recipe(inputs, loss_type, kind)), stack, tmp_path / "it")
    if made.errors:
        stacks_table.fill(stack, SAME_EXPERIMENT, "refused", f"{loss_type} {kind}")
    if not EXPRESSED[loss_type](stack):
        said = [finding.message for finding in made.errors if finding.key == "grpo.loss_type"]
        assert any(stack.partition("/")[0] in message for message in said), made.errors
        return
    assert made.errors == ()
    kept, _ = run(laboratory, stack, made)
    expected = wanted(loss_type, kept[0])
    assert len(kept) == STEPS + 1
    differences = _differences(kept[1:], expected)
    stacks_table.fill(stack, SAME_EXPERIMENT, f"{max(differences):.0e}", f"{loss_type} {kind}")
    assert max(differences) <= TOLERANCE, differences


@pytest.mark.parametrize("kind", ["full", "LoRA"])
@pytest.mark.parametrize("stack", [*(stack for stack in STACKS if stack < "0.16"), STACKS[-1]])
def test_completions_are_scored_at_their_temperature(
    stack: str,
    kind: str,
    inputs: Path,
    wanted: "Callable[..., list[Tensors]]",
    laboratory: Laboratory,
    tmp_path: Path,
) -> None:
    # On releases before 0.16 by the shim scored_temperature (SHM022).
    hot = recipe(inputs, "grpo", kind, generation={"temperature": 0.7})
    made = rendered(for_release(stack, hot), stack, tmp_path / "it")
    assert made.errors == ()
    assert ("scored_temperature" in made.shims) == (stack < "0.16")
    kept, _ = run(laboratory, stack, made)
    differences = _differences(kept[1:], wanted("grpo", kept[0], 0.7))
    assert max(differences) <= TOLERANCE, differences
    assert max(_differences(kept[1:], wanted("grpo", kept[0]))) > 100 * TOLERANCE


@pytest.fixture(scope="session")
def first_adapter(inputs: Path, laboratory: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A digest of the adapter on the newest stack before its first step."""
    made = rendered(recipe(inputs, "grpo", "LoRA"), STACKS[-1], tmp_path_factory.mktemp("newest") / "it")
    return str(run(laboratory, STACKS[-1], made)[1]["first"])


@pytest.mark.parametrize("stack", STACKS[:-1])
def test_an_adapter_starts_from_the_same_weights_everywhere(
    stack: str, inputs: Path, first_adapter: str, laboratory: Laboratory, tmp_path: Path
) -> None:
    loss_type = "bnpo" if stack.startswith("0.16.") else "grpo"
    made = rendered(for_release(stack, recipe(inputs, loss_type, "LoRA")), stack, tmp_path / "it")
    assert run(laboratory, stack, made)[1]["first"] == first_adapter


WRONG = {
    "another precision": {"training": {"bf16": True}},
    "no KL term": {"grpo": {"beta": 0.0}},
    "another KL term": {"grpo": {"use_bias_correction_kl": True}},
    "another temperature": {"generation": {"temperature": 0.9}},
    "another loss": {"grpo": {"loss_type": "dr_grpo"}},
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_another_experiment_has_another_gradient(
    change: dict[str, Any],
    inputs: Path,
    wanted: "Callable[..., list[Tensors]]",
    laboratory: Laboratory,
    tmp_path: Path,
) -> None:
    # Steps 2 and 3: in the first one policy and reference are equal, and some of these have no effect yet.
    made = rendered(recipe(inputs, "grpo", "full", **change), STACKS[-1], tmp_path / "it")
    kept, _ = run(laboratory, STACKS[-1], made)
    expected = wanted("grpo", kept[0])
    differences = _differences(kept[1:], expected)
    assert max(differences) > 100 * TOLERANCE, differences
