"""A configuration that was taken over gives the GRPOConfig that TRL's own parser makes of it, on each release.

What may differ stands in DIFFERENT, with the reason.
"""

import textwrap
from pathlib import Path
from typing import Any

import pytest
from environments import STACKS
from laboratory import Laboratory
from rendered import declared

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.stack.gpus import gpu_by_name
from grpo_recipes.takeover.takeover import Takeover, take_over

pytestmark = pytest.mark.stacks

DIFFERENT = {
    "output_dir": "the run's folder",
    "logging_dir": "the run's folder",
    "run_name": "the recipe's name",
    "report_to": "a recipe reports where it says so",
    "disable_tqdm": "grpo-run shows its own progress",
    "use_cpu": "of the machine that plans",
    "reward_weights": "a recipe says each weight; TRL's null is 1 for each",
    "eval_strategy": "grpo-run evaluates by itself",
    "eval_steps": "grpo-run evaluates by itself",
    "do_eval": "grpo-run evaluates by itself",
    "eval_on_start": "grpo-run evaluates by itself",
    "per_device_eval_batch_size": "grpo-run evaluates by itself",
    "num_generations_eval": "grpo-run evaluates by itself",
    "save_strategy": "grpo-run saves by steps",
    "save_steps": "0 where nothing is saved",
    "top_k": "null and 0 take all tokens",
    "logging_steps": "a line for each step, and the services get it as often as the recipe says",
    "model_init_kwargs": "the worker loads the model with its own arguments",
    "warmup_ratio": "said in the other field",
    "warmup_steps": "said in the other field",
    "gradient_checkpointing_kwargs": "grpo-run chooses use_reentrant where nothing is said",
    "activation_checkpointing_kwargs": "grpo-run chooses use_reentrant where nothing is said",
    "max_steps": "null is -1",
    "remove_unused_columns": "GRPOConfig's own",
}
MINIMAL = """
model_name_or_path: owner/model
dataset_name: owner/data
reward_funcs: [my_rewards.brevity]
output_dir: out
temperature: 1.0
"""
USUAL = """
model_name_or_path: owner/model
dataset_name: owner/data
reward_funcs: [my_rewards.brevity, my_rewards.accuracy]
output_dir: out
bf16: false
temperature: 1.0
gradient_checkpointing: true
gradient_checkpointing_kwargs: {use_reentrant: false}
learning_rate: 2e-05
logging_steps: 5
lr_scheduler_type: cosine
max_completion_length: 64
num_generations: 4
num_train_epochs: 2
per_device_train_batch_size: 8
save_strategy: "no"
seed: 7
weight_decay: "0.01"
adam_beta2: 0.95
max_grad_norm: 0.2
beta: 1e-3
report_to: none
"""
ACCUMULATED = f"""{USUAL}
gradient_accumulation_steps: 4
"""
WARMED = f"""{USUAL}
warmup_ratio: 0.1
"""
SINCE_0_17 = """
model_name_or_path: owner/model
dataset_name: owner/data
reward_funcs: [my_rewards.brevity]
output_dir: out
bf16: false
loss_type: grpo
scale_rewards: false
temperature: 0.8
top_p: 0.9
num_iterations: 2
epsilon: 0.1
epsilon_high: 0.3
mask_truncated_completions: true
shuffle_dataset: no
per_device_train_batch_size: 16
max_steps: 30
"""
# Releases that a case is not for, by how their names begin, and why.
NOT_FOR = {
    "since 0.17": (("0.14.", "0.15.", "0.16."), "they lack its fields"),
    "accumulated": (
        ("0.16.", "0.19."),
        "their loss depends on the micro-batch, which grpo-run refuses",
    ),
    "warmed": (("1.",), "transformers 5 has no warmup_ratio"),
}
CASES = {"minimal": MINIMAL, "usual": USUAL, "accumulated": ACCUMULATED, "warmed": WARMED, "since 0.17": SINCE_0_17}


def _text(case: str, stack: str) -> str:
    """The configuration; trl 0.14 counts prompts, and grpo-run keeps it to one in a micro-batch (BAT004)."""
    return CASES[case].replace("batch_size: 8", "batch_size: 1") if stack.startswith("0.14.") else CASES[case]


def _taken(text: str, stack: str, folder: Path) -> tuple[Takeover, dict[str, Any]]:
    """The takeover, and the arguments of its plan on the release it was written for, on one GPU."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "config.yaml"
    config.write_text(text, encoding="utf-8")
    (folder / "my_rewards.py").write_text(
        textwrap.dedent(
            """
            def brevity(completions, **kwargs):
                return [0.0 for _ in completions]

            def accuracy(completions, **kwargs):
                return [0.0 for _ in completions]
            """
        )
    )
    target = declared(stack)
    versions = f"trl=={target.version('trl')},transformers=={target.version('transformers')}"
    taken = take_over(str(config), written_for=versions, output=str(folder / "recipe.yaml"))
    (folder / "recipe.yaml").write_text(taken.text, encoding="utf-8")
    gpu = gpu_by_name("H100-80GB")
    assert gpu is not None

    torch = (target.version("torch") or "").partition("+")[0]  # as it is built for GPUs
    packages = {**target.packages, "torch": torch}
    resolution = resolve(str(folder / "recipe.yaml"), target._replace(gpus=(gpu,), packages=packages, torch_cuda=None))
    errors = [finding for finding in resolution.findings if finding.severity == "error"]
    assert errors == [], taken.text
    return taken, plan_of(resolution).arguments.GRPOConfig


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("stack", STACKS)
def test_the_plan_is_what_the_parser_of_trl_makes(
    stack: str, case: str, laboratory: Laboratory, tmp_path: Path
) -> None:
    releases, because = NOT_FOR.get(case, ((), ""))
    if stack.startswith(tuple(releases)):
        pytest.skip(because)
    text = _text(case, stack)
    taken, arguments = _taken(text, stack, tmp_path / "config")
    theirs = laboratory.run(stack, "takeover_experiments.parsed", config=text)
    ours = laboratory.run(stack, "takeover_experiments.built", arguments=arguments)
    assert theirs.result is not None, theirs.told
    assert ours.result is not None, ours.told
    differing = {
        name: (
            theirs.result[name],
            ours.result[name],
            classified_fields()[name].kind if name in classified_fields() else "",
        )
        for name in theirs.result
        if theirs.result[name] != ours.result[name] and name not in DIFFERENT
    }
    assert differing == {}, taken.text
    refused = [row.key for row in taken.rows if row.fate == "refused"]
    assert refused == []
    assert taken.is_complete
