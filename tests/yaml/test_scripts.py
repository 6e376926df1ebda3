"""A training script in the place of a recipe gets one message with the way to take it over."""

from pathlib import Path

import pytest

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.takeover.basis.draft import Draft
from grpo_recipes.takeover.basis.read import read_mapping
from grpo_recipes.yaml.load import load_text

SCRIPTS = {
    "imports": "from trl import GRPOConfig\n\nargs = GRPOConfig(\n    learning_rate=1e-5,\n)\n",
    "a function": "import trl\n\ndef reward(completions, **kwargs):\n\treturn [1.0 for c in completions]\n",
    "the call alone": "GRPOConfig(\n    output_dir='x', num_generations=8)\n",
    "a dict of arguments": "import trl\nargs = trl.GRPOConfig(**{'learning_rate': 1e-5})\nif args:\n    print(1)\n",
}


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_is_no_recipe(text: str, tmp_path: Path) -> None:
    document, (finding,) = load_text(text, "train.py")
    assert document is None
    assert finding.message == "the file is a Python script, not a recipe"
    assert "init --from grpo.json" in (finding.fix or "")
    (tmp_path / "train.py").write_text(text)
    with pytest.raises(Refusal, match="it is a Python script"):
        read_mapping(str(tmp_path / "train.py"), Draft())


@pytest.mark.parametrize("text", ["description: GRPOConfig(learning_rate) of trl\n", "name: from trl import x\n"])
def test_a_recipe_that_names_it_is_one(text: str) -> None:
    document, findings = load_text(text, "recipe.yaml")
    assert document is not None and findings == []


@pytest.mark.parametrize("text", ["import os\nx = 1\n", "- 1\n- 2\n", "from transformers import TRL\n"])
def test_any_other_text_is_answered_as_before(text: str) -> None:
    _, findings = load_text(text, "x.py")
    assert [finding.message for finding in findings] != ["the file is a Python script, not a recipe"]


SHELL = {
    "verl": "set -x\n\npython3 -m verl.trainer.main_ppo \\\n    algorithm.adv_estimator=grpo $@\n",
    "ms-swift": "NPROC_PER_NODE=8 \\\nMAX_PIXELS=1 swift rlhf \\\n    --rlhf_type grpo --model a/b\n",
    "a first line": "#!/bin/bash\nMODEL=a/b\nrun_it $MODEL\n",
    "OpenRLHF": "ray job submit -- python3 -m openrlhf.cli.train_ppo_ray \\\n    --pretrain a/b\n",
    "deepspeed": "export A=b\ndeepspeed --num_gpus 8 train.py --lr 1e-6\n",
    "trl": "trl grpo --model_name_or_path a/b --dataset_name a/c\n",
}


@pytest.mark.parametrize("text", SHELL.values(), ids=SHELL)
def test_a_shell_script_is_no_recipe(text: str, tmp_path: Path) -> None:
    document, (finding,) = load_text(text, "run.sh")
    assert document is None
    assert finding.message == "the file is a shell script, not a recipe"
    assert "docs/takeover.md" in str(finding.fix)
    (tmp_path / "run.sh").write_text(text)
    with pytest.raises(Refusal, match="it is a shell script"):
        read_mapping(str(tmp_path / "run.sh"), Draft())


def test_toml_is_no_recipe() -> None:
    _, (finding,) = load_text('max_steps = 5\n\n[model]\nname = "a/b"\n', "rl.toml")
    assert finding.message == "the file is TOML, not a recipe"


def test_a_notebook_is_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "grpo.ipynb").write_text('{"cells": [{"source": ["GRPOConfig()"]}], "nbformat": 4}')
    with pytest.raises(Refusal, match="it is a notebook"):
        read_mapping(str(tmp_path / "grpo.ipynb"), Draft())
