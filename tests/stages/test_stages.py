"""Runs that start from runs: where they begin, what their reference is, and what they say of where they come from."""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from in_plain_peft import trained_by_hand
from stage_runs import Command, Run

from grpo_recipes.contract.integrity.manifest import MANIFEST

pytestmark = pytest.mark.stack


def tensors_of(folder: Path) -> "dict[str, object]":
    from safetensors.torch import load_file

    return {name: tensor for file in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(file).items()}


def test_a_run_that_goes_on_is_the_one_that_peft_and_trl_make_of_the_adapter(
    staged: Callable[..., Run], first: Run, warm_python: Path, tmp_path: Path
) -> None:
    import torch

    run = staged("on", model={"from_run": "./first"}, lora={"continue": True})
    assert run.code == 0, run.said
    assert "continues with the adapter of first, 28 unchanged tensors" in run.log

    done = trained_by_hand(warm_python / "python", run.folder, first.folder / "final", tmp_path / "by-hand")
    assert done.returncode == 0, done.stdout + done.stderr

    ours, theirs = tensors_of(run.folder / "final"), tensors_of(tmp_path / "by-hand" / "final")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    before = tensors_of(first.folder / "final")
    assert not all(torch.equal(ours[name], before[name]) for name in ours)


def test_the_penalty_of_a_run_that_goes_on_is_measured_from_the_model_without_its_adapter(
    second: Run, third: Run
) -> None:
    references = {
        run.plan["name"]: {row["key"]: row["value"] for row in run.plan["settings"]}["stage.reference"]
        for run in (second, third)
    }
    assert references == {"second": "base", "third": "policy"}
    assert second.figures("kl")[0] > 0.001  # TRL's reference is not what the first run ended with
    assert third.figures("kl")[0] == pytest.approx(0, abs=1e-9)  # it is what the second run ended with


def test_trl_takes_a_copy_of_an_adapter_that_it_is_handed_for_its_reference(
    second: Run, first: Run, warm_python: Path, tmp_path: Path
) -> None:
    """What MDL007 says of the newest release, and why the tensors are laid into an adapter of the trainer's own."""
    done = trained_by_hand(warm_python / "python", second.folder, first.folder / "final", tmp_path / "by-hand")
    assert done.returncode == 3
    assert "trained tensors: the proof failed before the first step" in done.stderr
    assert ".lora_A.ref.weight" in done.stderr


def test_a_merged_model_computes_what_model_and_adapter_did(second: Run, third: Run) -> None:
    import torch
    from peft import AutoPeftModelForCausalLM
    from transformers import AutoModelForCausalLM

    ids = torch.arange(24).reshape(2, 12) % 20
    with torch.no_grad():
        adapted = AutoPeftModelForCausalLM.from_pretrained(second.folder / "final")
        merged = AutoModelForCausalLM.from_pretrained(third.folder / "merged_model")
        told, found = (model(input_ids=ids).logits.log_softmax(-1) for model in (adapted, merged))
        with adapted.disable_adapter():
            base = adapted(input_ids=ids).logits.log_softmax(-1)
    assert (told - found).abs().max() < 1e-4
    assert (told - base).abs().max() > 1e-2
    assert "merged the adapter of second into its model, as torch.float32" in third.log


def test_an_adapter_of_another_shape_is_refused_before_anything_is_trained(
    staged: Callable[..., Run], first: Run, place: Path
) -> None:
    """What LRA015 says of another rank and of other modules; the file says less than its tensors."""
    shutil.copytree(first.folder / "final", place / "other")
    (place / "other" / MANIFEST).unlink()  # a folder that its owner changes is no copy any more
    config = json.loads((place / "other/adapter_config.json").read_text())
    for changes in ({"r": 8}, {"target_modules": ["q_proj"]}):
        (place / "other/adapter_config.json").write_text(json.dumps(config | changes))
        run = staged(
            f"shape-{len(str(changes))}",
            model={"from_run": "./other"},
            lora={"continue": True, "r": None, "target_modules": None},
        )
        assert run.code == 3, run.said
        assert "the adapter of other does not fit this model and these modules" in run.said


def test_weights_that_changed_since_the_plan_stop_the_run(
    command: Command, first: Run, place: Path, warm_python: Path
) -> None:
    shutil.copytree(first.folder, place / "changing")
    recipe = {
        "extends": "./first.yaml",
        "name": "later",
        "model": {"from_run": "./changing"},
        "lora": {"continue": True},
    }
    (place / "later.yaml").write_text(json.dumps(recipe))
    assert command("later.yaml", "--dry-run", "--out", "later", cwd=place).returncode == 0
    weights = place / "changing/final/adapter_model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)

    again = command("later", "--validate-only", cwd=place)
    assert again.returncode == 2
    assert "final/adapter_model.safetensors was changed [MDL006]" in again.stdout, again.stdout

    environment = {**os.environ, "PYTHON": str(warm_python / "python")}
    done = subprocess.run(
        ["bash", "launch.sh"], cwd=place / "later", env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 3, done.stdout + done.stderr
    assert "the adapter of first has changed since the plan was made" in done.stdout + done.stderr


def test_the_chain_of_three_runs_stands_in_plan_diff_and_card(
    command: Command, first: Run, second: Run, third: Run, place: Path
) -> None:
    digests = {
        run.folder.name: hashlib.sha256((run.folder / "plan.json").read_bytes()).hexdigest() for run in (first, second)
    }
    chain = [("merge", "second", 2, digests["second"]), ("continue", "first", 2, digests["first"])]

    compared = json.loads(command("diff", "first", "third", "--json", cwd=place).stdout)
    assert compared["lineage"]["a"] == []
    told = [tuple(run[key] for key in ("use", "name", "step", "plan_sha256")) for run in compared["lineage"]["b"]]
    assert told == chain
    rows = {row["key"]: row["b"] for row in compared["experiment"]}
    weights = compared["lineage"]["b"][0]["weights_sha256"]
    assert rows["ancestor.use"] == "merge" and rows["ancestor.weights_sha256"] == weights

    said = command("diff", "second", "third", cwd=place).stdout
    assert f"     merged from second, step 2, plan {digests['second'][:12]}, weights {weights[:12]}\n" in said
    assert said.count(f"continues first, step 2, plan {digests['first'][:12]}") == 2

    card = (third.folder / "final/README.md").read_text()
    made_of = yaml.safe_load(card.split("```yaml\n")[1].split("```")[0])
    found = [(run["use"], run["name"], run["step"], run["plan_sha256"]) for run in made_of["ancestors"]]
    assert found == [("merge", "second", 2, digests["second"]), ("continue", "first", 2, digests["first"])]
    summary = json.loads((third.folder / "final/run.json").read_text())
    assert [run["name"] for run in summary["ancestors"]] == ["second", "first"]
