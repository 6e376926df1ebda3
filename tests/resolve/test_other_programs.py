"""A file that was written for TRL, open-r1, axolotl or verl is said to be one, in one message with the way on."""

from pathlib import Path

import pytest
from small_recipe import BASE, declared

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.takeover.takeover import take_over

TRL = """\
model_name_or_path: Qwen/Qwen2-0.5B-Instruct
dataset_name: trl-lib/tldr
reward_funcs: [accuracy_reward]
learning_rate: 1.0e-6
num_generations: 8
bf16: true
output_dir: out
"""
OPEN_R1 = """\
model_name_or_path: Qwen/Qwen2.5-1.5B-Instruct
torch_dtype: bfloat16
dataset_name: open-r1/OpenR1-Math-220k
dataset_prompt_column: problem
system_prompt: "You are a helpful assistant."
bf16: true
use_vllm: true
callbacks: [push_to_hub_revision]
benchmarks: [math_500]
reward_funcs: [accuracy, format]
reward_weights: [1.0, 1.0]
seed: 42
"""
AXOLOTL = """\
base_model: Qwen/Qwen2-0.5B-Instruct
rl: grpo
trl: {beta: 0.001, use_vllm: true, num_generations: 4, reward_funcs: [rewards.accuracy]}
vllm: {host: 0.0.0.0}
datasets: [{path: openai/gsm8k}]
micro_batch_size: 4
num_epochs: 1
"""
VERL = "data: {train_files: a.parquet}\nactor_rollout_ref: {model: {path: a/b}}\nalgorithm: {adv_estimator: grpo}\n"
ACCELERATE = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: bf16\n"
SWIFT = (
    "rlhf_type: grpo\nmodel: a/b\ndataset: a/c\nreward_funcs: accuracy format\n"
    "learning_rate: 1e-5\nnum_generations: 8\nbeta: 0.04\n"
)
LLAMA_FACTORY = (
    "stage: ppo\nfinetuning_type: lora\nmodel_name_or_path: a/b\ndataset: a\n"
    "learning_rate: 1e-5\nnum_train_epochs: 3.0\noutput_dir: out\n"
)
OUMI = (
    "model: {model_name: a/b}\ndata: {train: {datasets: [{dataset_name: a/c}]}}\n"
    "training: {trainer_type: TRL_GRPO, max_steps: 5}\n"
)
TORCHTUNE = "model: {_component_: torchtune.models.qwen2}\nbatch_size: 1\ngrpo_samples: 4\n"
NEMO = (
    "grpo: {num_prompts_per_step: 8}\npolicy: {model_name: a/b, generation: {backend: vllm}}\ncluster: {num_nodes: 1}\n"
)
FLAT = "recipe: 1\nname: a\nmodel_name_or_path: a/b\ndataset_name: a/c\nlearning_rate: 1.0e-6\nnum_generations: 8\n"
RECIPES = [
    pytest.param(BASE, id="a-recipe"),
    pytest.param(f"{BASE}learning_rate: 1.0e-6\n", id="with-one-key-of-trl"),
    pytest.param(f"{BASE}base_model: a/b\n", id="with-one-key-of-axolotl"),
    pytest.param(BASE.replace("recipe: 1\n", ""), id="without-its-format"),
    pytest.param(BASE.replace("recipe: 1\n", "") + TRL, id="without-its-format-and-with-all-keys-of-trl"),
    pytest.param(FLAT, id="flat-but-called-a-recipe"),
    pytest.param("learning_rate: 1.0e-6\n", id="one-key"),
    pytest.param("name: a\ntrl: {beta: 0.1}\n", id="a-section-that-axolotl-has-too"),
    pytest.param("name: a\nmodel: a/b\ndataset: a/c\nprompts: 8\nbeta: 0.1\n", id="words-of-nobody"),
]


def _findings(folder: Path, text: str) -> list[str]:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return [finding.message for finding in resolve(str(path), declared()).findings]


@pytest.mark.parametrize("text", RECIPES)
def test_a_recipe_is_taken_for_no_other_programs_file(text: str, tmp_path: Path) -> None:
    assert not [message for message in _findings(tmp_path, text) if "configuration of" in message]


@pytest.mark.parametrize(
    ("text", "program"),
    [
        pytest.param(TRL, "TRL or open-r1", id="trl"),
        pytest.param(OPEN_R1, "TRL or open-r1", id="open-r1"),
        pytest.param(AXOLOTL, "axolotl", id="axolotl"),
        pytest.param(VERL, "verl", id="verl"),
        pytest.param(ACCELERATE, "accelerate", id="accelerate"),
        pytest.param(SWIFT, "ms-swift", id="ms-swift"),
        pytest.param(LLAMA_FACTORY, "LLaMA-Factory", id="llama-factory"),
        pytest.param(OUMI, "oumi", id="oumi"),
        pytest.param(TORCHTUNE, "torchtune", id="torchtune"),
        pytest.param(NEMO, "NeMo-RL", id="nemo-rl"),
    ],
)
def test_another_programs_file_is_one_message(text: str, program: str, tmp_path: Path) -> None:
    assert _findings(tmp_path, text) == [f"this is a configuration of {program}, not a recipe"]


@pytest.mark.parametrize("text", [TRL, OPEN_R1, AXOLOTL], ids=["trl", "open-r1", "axolotl"])
def test_the_way_on_that_is_offered_exists(text: str, tmp_path: Path) -> None:
    path = tmp_path / "my file.yaml"
    path.write_text(text, encoding="utf-8")
    (found,) = resolve(str(path), declared()).findings
    assert found.fix == f"grpo-run init --from '{path}' -o recipe.yaml"
    assert found.mark is not None and found.mark.line == 1
    assert take_over(str(path)).text.startswith("#")


@pytest.mark.parametrize("text", [VERL, SWIFT, LLAMA_FACTORY, OUMI, NEMO], ids=["verl", "swift", "lf", "oumi", "nemo"])
def test_a_file_that_cannot_be_taken_over_is_not_offered_so(text: str, tmp_path: Path) -> None:
    """Nor is it read with TRL's names and defaults."""
    path = tmp_path / "other.yaml"
    path.write_text(text, encoding="utf-8")
    (found,) = resolve(str(path), declared()).findings
    assert found.fix is not None and "docs/takeover.md" in found.fix
    assert found.patch == ()
    with pytest.raises(Refusal, match="this is a configuration of") as refused:
        take_over(str(path))
    assert found.fix in str(refused.value)


def test_the_way_from_an_accelerate_file_names_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(ACCELERATE, encoding="utf-8")
    (found,) = resolve(str(path), declared()).findings
    assert str(found.fix).startswith("grpo-run init --from CONFIG --accelerate")


def test_a_file_without_a_key_of_trl_is_not_read_as_one_of_trl(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text("policy: {path: a/b}\nworkers: 4\n", encoding="utf-8")
    with pytest.raises(Refusal, match="this is a configuration of an unknown program"):
        take_over(str(path))


def test_a_recipe_with_a_key_of_another_program_in_a_section_is_a_recipe(tmp_path: Path) -> None:
    findings = _findings(tmp_path, BASE.replace("training: {", "training: {trainer_type: grpo, "))
    assert not [message for message in findings if "configuration of" in message]
