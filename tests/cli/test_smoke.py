"""`grpo-run RECIPE --smoke`: the real launch path for two steps, and the pages of what it proves."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.releases import pinned

QUICKSTART = str(Path(__file__).parents[2] / "recipes" / "quickstart.yaml")
PROOFS = [*(f"PRF00{number}" for number in range(1, 10)), "PRF036", "PRF038"]
STACK = f"{pinned('trl transformers peft accelerate torch')},gpus=0"
FEW = ("--set", "training.prompts_per_step=4")
IDLE = """
import torch
torch.optim.AdamW.step = lambda self, closure=None: None

def place(completions, **kwargs):
    return [float(number) for number, _ in enumerate(completions)]
"""


def _planned(grpo_run: Callable[..., Any], *arguments: str) -> dict[str, Any]:
    answer = grpo_run(QUICKSTART, "--dry-run", "--target", STACK, *arguments)
    assert answer.code == 0, answer.err
    plan: dict[str, Any] = json.loads((Path(answer.out.strip()) / "plan.json").read_text())
    return plan


def test_a_trial_differs_from_its_run_in_steps_rows_and_what_it_leaves(
    tmp_path: Path, grpo_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run, trial = _planned(grpo_run, "--out", "run"), _planned(grpo_run, "--smoke")
    assert [path.name.rpartition("-")[0].rpartition("-")[0] for path in Path("runs").iterdir()] == ["quickstart-smoke"]
    origins = {row["key"]: (row["value"], row["origin"]) for row in trial["settings"]}
    assert origins["GRPOConfig.max_steps"] == (2, "--smoke")
    assert origins["dataset.max_rows"] == (32, "--smoke")  # 16 prompts in each of two steps
    assert not [key for key in origins if key.startswith("evaluation.")]

    assert (trial["evaluation"], trial["smoke"], run["smoke"]) == (None, True, False)
    assert trial["data"].pop("max_rows") == 32
    assert run["data"].pop("max_rows") is None
    for plan, steps, saving in ((trial, 2, "no"), (run, 100, "steps")):
        arguments = plan["arguments"]["GRPOConfig"]
        assert (arguments.pop("max_steps"), arguments.pop("save_strategy")) == (steps, saving)
        assert plan["expect"]["arguments"].pop("max_steps", steps) == steps
        plan["verified"].pop("evaluation.rows", None)
        for key in ("evaluation", "smoke", "settings", "folder"):
            del plan[key]
    assert trial == run


@pytest.mark.parametrize(
    ("overrides", "rows"),
    [
        ([], 32),
        (["dataset.max_rows=20"], 20),
        (["grpo.optimizer_steps_per_generation=2"], 32),
        (["grpo.optimizer_steps_per_generation=4", "training.save_steps=52"], 64),
        (["training.per_device_train_batch_size=32"], 32),
    ],
    ids=["two steps", "fewer are planned", "one generation for both", "one for four", "four parts of a step"],
)
def test_a_trial_takes_the_prompts_of_two_steps_in_whole_generations(
    overrides: list[str],
    rows: int,
    tmp_path: Path,
    grpo_run: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    options = [word for override in overrides for word in ("--set", override)]
    assert _planned(grpo_run, "--smoke", *options)["data"]["max_rows"] == rows


def test_a_trial_is_no_continuation(grpo_run: Callable[..., Any]) -> None:
    assert grpo_run("somewhere", "--resume", "--smoke").code == 2


@pytest.mark.parametrize("proof", PROOFS)
def test_every_proof_has_a_page(proof: str, grpo_run: Callable[..., Any]) -> None:
    answer = grpo_run("explain", proof.lower(), "--target", STACK)
    assert answer.code == 0
    assert answer.out.startswith(f"{proof}\n\n")
    assert "Source: " in answer.out


@pytest.mark.stack
def test_a_trial_prints_its_proofs_and_leaves_no_model(tmp_path: Path, warm_run: Callable[..., Any]) -> None:
    done = warm_run(QUICKSTART, "--smoke", *FEW)
    assert done.code == 0, done.err
    assert "proofs      world 1/1 · no logits built (fused head)" in done.out
    assert "adapter moved after 2 steps" in done.out
    (folder,) = (tmp_path / "runs").iterdir()
    record = json.loads((folder / "run.json").read_text())
    most = max(phase["measured"] for phase in record["memory"].values()) / 2**30
    assert f"\nsmoke passed, peak memory {most:.1f} GiB in " in done.out
    assert [proof["id"] for proof in record["proofs"] if proof["ok"]] and record["final"] is None
    assert {proof["id"] for proof in record["proofs"]} == set(PROOFS)
    assert not (folder / "final").exists()
    assert not list((folder / "checkpoints").glob("checkpoint-*"))


@pytest.mark.stack
def test_a_trial_whose_proof_fails_ends_with_3(tmp_path: Path, warm_run: Callable[..., Any]) -> None:
    (tmp_path / "idle.py").write_text(IDLE)
    words = (QUICKSTART, "--smoke", *FEW, "--set", "rewards=[{python: idle.py:place}]")
    refused = warm_run(*words)
    assert refused.code == 2
    allow = refused.err.split("--allow-code ")[1].split()[0].rstrip(";,")
    done = warm_run(*words, "--allow-code", allow)
    assert done.code == 3, done.err
    assert "movement: the proof failed in step 2 [PRF005]" in done.out
    assert done.out.endswith("smoke failed\n")
