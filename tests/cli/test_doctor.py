"""`doctor`: the known defects of a stack, what grpo-run does about each, and which releases are without."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.releases import TESTED

from grpo_recipes.cli.commands import doctor
from grpo_recipes.facts.released.shipped import newest_release, table
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.report.plan_text import stack_text
from grpo_recipes.resolve.known_defects import known_defects
from grpo_recipes.rules.catalog import rules
from grpo_recipes.stack.stack import Stack

NEWEST = {name: TESTED[name] for name in ("trl", "transformers", "peft", "deepspeed")} | {"vllm": "0.30.0"}


def stack(**packages: str | None) -> Stack:
    return Stack(None, packages, None, None, True, "test")


def test_the_newest_releases_have_no_known_defect_but_what_shims_repair() -> None:
    assert [defect.what for defect in known_defects(stack(**NEWEST)) if "shim" not in defect.answer] == []


def test_a_driver_that_does_not_answer_is_named_on_this_machine_alone() -> None:
    here = stack(**NEWEST)._replace(declared=False)
    assert "gpus          not known: nvidia-smi is missing, fails or" in stack_text(here)
    assert stack_text(stack(**NEWEST)).endswith("gpus          not known")


def test_a_cpu_that_is_slow_in_bfloat16_is_named_where_it_would_train() -> None:
    slow = stack(**NEWEST)._replace(gpus=(), avx512_bf16=False)
    assert stack_text(slow).endswith("no AVX512-BF16: bfloat16 is slower than float32")
    assert "AVX512" not in stack_text(slow._replace(avx512_bf16=None))


@pytest.mark.processes
def test_where_the_driver_does_not_answer_nothing_is_missing_for_the_cpu(
    grpo_run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    out = grpo_run("doctor").out
    assert "nvidia-smi is missing, fails or takes too long" in out
    assert "this stack has everything that a run needs, on the CPU with launch.gpus_per_node: 0\n" in out


@pytest.mark.processes
@pytest.mark.parametrize(
    ("mechanism", "line"),
    [
        ("landlock", "sandbox       landlock 7\n"),
        ("bubblewrap", "sandbox       bubblewrap\n"),
        (None, "sandbox       missing: neither Landlock (Linux 5.13) nor bubblewrap works\n"),
    ],
)
def test_it_says_what_holds_the_code_of_a_model(
    mechanism: str | None, line: str, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "available", lambda: mechanism)
    monkeypatch.setattr(doctor, "abi", lambda: 7)
    assert line in grpo_run("doctor").out
    assert json.loads(grpo_run("doctor", "--json").out)["sandbox"] == mechanism


@pytest.mark.processes
def test_of_another_machine_no_sandbox_is_known(grpo_run: Callable) -> None:
    assert "sandbox" not in grpo_run("doctor", "--target", "trl==1.16.0").out
    assert "sandbox" not in json.loads(grpo_run("doctor", "--json", "--target", "trl==1.16.0").out)


def test_what_is_not_known_has_no_known_defects() -> None:
    assert all(defect.rule in {rule.id for rule in rules() if rule.owns} for defect in known_defects(stack()))


@pytest.mark.parametrize(
    ("packages", "rule", "without"),
    [
        ({"trl": "0.15.2", "transformers": "4.48.3"}, "SHM007", "trl 1.15.0"),
        ({"trl": "0.15.2"}, "LRA002", "trl 0.16.0"),
        ({"trl": "1.14.1"}, "SHM008", "trl 1.14.2"),
        ({"trl": "0.14.0", "deepspeed": "0.16.9"}, "STK015", "deepspeed 0.16.3"),
        ({"trl": "0.15.0"}, "STK015", "trl 0.15.2"),
        ({"trl": "0.19.0"}, "STK015", "trl 0.19.1"),
    ],
)
def test_a_defect_is_named_with_the_nearest_release_without_it(
    packages: dict[str, str | None], rule: str, without: str
) -> None:
    assert without in [
        way for defect in known_defects(stack(**packages)) if defect.rule == rule for way in defect.without
    ]


@pytest.mark.parametrize("row", table("known_defects")["defects"], ids=lambda row: row["happens"][:30])
def test_a_row_of_the_table_is_over_in_the_newest_release_and_has_no_rule_of_its_own(row: dict[str, object]) -> None:
    packages = row["packages"]
    assert isinstance(packages, dict)
    assert all(not is_within(str(newest_release(name)), window) for name, window in packages.items())
    rule = next((rule for rule in rules() if rule.id == row["rule"]), None)
    assert (rule is None) == (row["rule"] is None)
    assert rule is None or not rule.applies_to, "the rule says for which releases it is"


def test_doctor_says_what_is_wrong_and_what_to_do(grpo_run: Callable) -> None:
    out = grpo_run("doctor", "--target", "trl==0.14.0,transformers==4.52.4,peft==0.14.0").out
    assert "error: trl 0.14.0 with transformers 4.52.4: the log-probs of completions are silently wrong" in out
    assert "  = fix: pip install transformers==4.51.3, or pip install trl==0.17.0" in out
    assert "repaired by the shim logits_to_keep if a recipe needs it; not with trl 1.15.0" in out


def test_a_trainer_that_cannot_be_imported_without_requests_says_so(grpo_run: Callable, tmp_path: Path) -> None:
    installed = {"trl": "1.9.0", "transformers": "5.23.0", "peft": "0.19.1"}
    for requests, found in ((None, 1), ("2.32.5", 0)):
        file = tmp_path / "stack.json"
        file.write_text(json.dumps({"python": None, "packages": {**installed, "requests": requests}, "gpus": []}))
        answer = json.loads(grpo_run("doctor", "--json", "--target", str(file)).out)
        said = [finding["fix"] for finding in answer["findings"] if "'requests'" in finding["message"]]
        assert said == ["pip install requests, or trl==1.14.2"][:found]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        pytest.param("tested,gpus=1xT4,driver=580.65.06,c_compiler=yes,python_headers=yes", [], id="all-is-there"),
        pytest.param("tested,gpus=0,driver=535.1,c_compiler=no", [], id="no-gpus"),
        pytest.param("tested,gpus=1xT4,driver=535.1", ["STK016"], id="old-driver"),
        pytest.param("tested,torch==2.13.0+cu126,gpus=1xT4,driver=535.1", [], id="old-driver-and-an-older-cuda"),
        pytest.param("tested,torch==2.13.0+cpu,gpus=1xT4", ["STK016"], id="torch-for-the-cpu"),
        pytest.param("tested,gpus=1xT4,c_compiler=no", ["STK017"], id="no-compiler"),
        pytest.param("tested,gpus=1xT4,driver=535.1,python_headers=no", ["STK016", "STK017"], id="both"),
    ],
)
def test_doctor_names_what_keeps_the_gpus_from_training(grpo_run: Callable, target: str, said: list[str]) -> None:
    answer = json.loads(grpo_run("doctor", "--json", "--target", target).out)
    assert [finding["rule"] for finding in answer["findings"] if finding["rule"] in ("STK016", "STK017")] == said


def test_doctor_shows_the_driver_beside_the_cuda_of_torch(grpo_run: Callable, tmp_path: Path) -> None:
    target = "tested,gpus=1xT4,driver=535.104.05,c_compiler=no,python_headers=yes"
    out = grpo_run("doctor", "--target", target).out
    assert "torch         2.13.0, built for CUDA 13.0\n" in out
    assert "driver        535.104.05, runs CUDA up to 12.x\nc compiler    not found\npython.h      found\n" in out
    assert "or 'torch>=2.8.0,<2.11.0', PyPI's newest for this driver" in out
    (file := tmp_path / "cluster.json").write_text(grpo_run("doctor", "--json", "--target", target).out)
    again = grpo_run("doctor", "--target", str(file)).out
    assert "driver        535.104.05, runs CUDA up to 12.x" in again, "what doctor prints is a target that says as much"
