"""`--accept`: errors of a rule as warnings, for a stack that was patched; and what cannot be accepted."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_recipes.contract.read_plan import from_json

pytestmark = pytest.mark.slow

RECIPE = str(Path(__file__).parents[2] / "recipes" / "quickstart.yaml")
STACK = "python==3.11,torch==2.13.0,trl==1.16.0,transformers==5.17.0,peft==0.21.2,accelerate==1.15.0,datasets==5.2.0"
CPU = ("--target", f"{STACK},math-verify==0.9.0,vllm==0.31.0,gpus=0")
WITH_VLLM = ("--set", "generation.use_vllm=true")


def test_an_error_is_one_without_the_option(grpo_run: Callable) -> None:
    answer = grpo_run("validate", RECIPE, *CPU, *WITH_VLLM)
    assert answer.code == 2
    assert "error: vLLM in the training processes needs a GPU [GEN001]" in answer.out


def test_an_accepted_rule_warns(grpo_run: Callable) -> None:
    answer = grpo_run("validate", RECIPE, *CPU, *WITH_VLLM, "--accept", "gen001", "--format", "json")
    found = [one for one in json.loads(answer.out)["findings"] if one["rule"] == "GEN001"]
    assert answer.code == 0
    assert [(one["severity"], one["fix"], one["patch"]) for one in found] == [("warning", None, [])]
    assert found[0]["message"].startswith("accepted: ")


def test_other_errors_stay(grpo_run: Callable) -> None:
    wrong = ("--set", "training.per_device_train_batch_size=7")
    answer = grpo_run("validate", RECIPE, *CPU, *WITH_VLLM, *wrong, "--accept", "GEN001")
    assert answer.code == 2
    assert "[BAT001]" in answer.out
    assert "warning: accepted: vLLM" in answer.out


def test_the_plan_keeps_the_accepted_rules_that_were_met(grpo_run: Callable) -> None:
    answer = grpo_run("plan", RECIPE, *CPU, *WITH_VLLM, "--accept", "GEN001", "--accept", "BAT001", "--json")
    plan = from_json(answer.out)
    assert plan.accepted == ("GEN001",)
    assert "warning: accepted: vLLM in the training processes needs a GPU [GEN001]" in plan.findings
    assert from_json(grpo_run("plan", RECIPE, *CPU, "--accept", "GEN001", "--json").out).accepted == ()


def test_a_plan_and_a_run_folder_are_made_of_an_accepted_recipe(grpo_run: Callable, tmp_path: Path) -> None:
    shown = grpo_run("plan", RECIPE, *CPU, *WITH_VLLM, "--accept", "GEN001")
    assert "accepted: vLLM in the training processes" in shown.out
    folder = tmp_path / "run"
    ran = grpo_run(RECIPE, *CPU, *WITH_VLLM, "--accept", "GEN001", "--dry-run", "--out", str(folder))
    assert ran.code == 0
    assert from_json((folder / "plan.json").read_text()).accepted == ("GEN001",)


@pytest.mark.parametrize(("rule", "shim"), [("SHM024", "equal_rewards"), ("SHM025", "less_padding")])
def test_an_accepted_shim_is_left_out(rule: str, shim: str, grpo_run: Callable, tmp_path: Path) -> None:
    planned = from_json(grpo_run("plan", RECIPE, *CPU, "--json").out)
    left = from_json(grpo_run("plan", RECIPE, *CPU, "--accept", rule.lower(), "--json").out)
    assert (shim in planned.shims, planned.accepted) == (True, ())
    assert (shim in left.shims, left.accepted) == (False, (rule,))
    assert f"shims.{shim}" not in {row.key for row in left.settings}
    folder = tmp_path / "run"
    assert grpo_run(RECIPE, *CPU, "--accept", rule, "--dry-run", "--out", str(folder)).code == 0
    again = grpo_run(str(folder), *CPU, "--dry-run", "--out", str(tmp_path / "again"))
    assert again.code == 0, again.err
    assert shim not in from_json((tmp_path / "again" / "plan.json").read_text()).shims


def test_diff_names_what_was_accepted(grpo_run: Callable) -> None:
    on_gpu = f"{STACK},math-verify==0.9.0,vllm==0.31.0,gpus=1xA100-80GB"
    sides = ("--target", on_gpu, *CPU)
    assert grpo_run("diff", RECIPE, *WITH_VLLM, *sides).code == 2
    answer = grpo_run("diff", RECIPE, *WITH_VLLM, *sides, "--accept", "GEN001")
    assert answer.code in (0, 1)
    row = next(line for line in answer.out.splitlines() if line.startswith("  accepted rules"))
    assert row.split()[2:4] == ["-", '["GEN001"]']


def test_fix_leaves_what_was_accepted(grpo_run: Callable, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    text = f"extends: {RECIPE}\ngeneration: {{use_vllm: true}}\n"
    recipe.write_text(text)
    assert "+generation: {use_vllm: auto}" in grpo_run("validate", str(recipe), *CPU, "--fix=suggested").out
    assert "use_vllm" not in grpo_run("validate", str(recipe), *CPU, "--fix=suggested", "--accept", "GEN001").out


def test_strict_and_accept_go_together(grpo_run: Callable) -> None:
    unknown = (*WITH_VLLM, "--target", f"{STACK},math-verify==0.9.0,gpus=1xA100-80GB", "--strict")
    assert "error: whether" in grpo_run("validate", RECIPE, *unknown).out
    answer = grpo_run("validate", RECIPE, *unknown, "--accept", "GEN001")
    assert "warning: accepted: whether" in answer.out


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        pytest.param("BAT01", "there is no such rule; the nearest is BAT001", id="a-typo"),
        pytest.param("shm24", "there is no such rule; the nearest is SHM024", id="a-typo-of-a-shim"),
        pytest.param("everything", "there is no such rule", id="no-id"),
        pytest.param("FCT004", "only rules that judge the recipe can be accepted", id="of-the-facts"),
        pytest.param("SCH001", "only rules that judge the recipe can be accepted", id="of-the-format"),
        pytest.param("STK012", "only rules that judge the recipe can be accepted", id="of-the-stack"),
        pytest.param("PRF001", "only rules that judge the recipe can be accepted", id="a-proof"),
        pytest.param("SHM001", "reports no errors", id="a-decision"),
        pytest.param("TRU001", "may do to this machine", id="trust"),
        pytest.param("DAT001", "a run needs its data", id="what-is-not-there"),
        pytest.param("STK010", "a missing package cannot be patched", id="a-missing-package"),
    ],
)
def test_what_no_patched_library_answers_cannot_be_accepted(grpo_run: Callable, rule: str, why: str) -> None:
    answer = grpo_run("validate", RECIPE, "--accept", rule)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: --accept {rule.upper()}: ")
    assert why in answer.err


def test_a_resumed_run_takes_its_plan_as_it_is(grpo_run: Callable, tmp_path: Path) -> None:
    answer = grpo_run(str(tmp_path), "--resume", "--accept", "GEN001")
    assert answer.code == 2
    assert "--resume continues the plan unchanged" in answer.err
