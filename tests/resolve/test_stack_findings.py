"""What is said about a declared stack: releases, declared windows, and combinations that cannot work."""

import pytest

from grpo_recipes.facts.facts import facts_for
from grpo_recipes.finding import Finding
from grpo_recipes.resolve.stack_findings import stack_findings
from grpo_recipes.stack.probe import probe
from grpo_recipes.stack.target import parse_target


def said(target: str) -> list[Finding]:
    stack, findings = parse_target(target)
    assert stack is not None, findings
    return stack_findings(stack, facts_for(stack))


@pytest.mark.parametrize(
    "target",
    [
        "trl==0.14.0,transformers==4.48.3,peft==0.14.0",
        "trl==0.15.2,transformers==4.49.0,peft==0.14.0,accelerate==1.4.0,deepspeed==0.16.3",
        "trl==0.19.1,transformers==4.52.4,peft==0.15.2",
        "trl==0.29.1,transformers==4.57.6,peft==0.18.1,torch==2.9.0+cpu,vllm==0.12.0",
        "trl==1.16.0,transformers==5.23.0,peft==0.21.2,gpus=8xH100-80GB",
    ],
)
def test_a_stack_of_releases_that_fit_is_not_spoken_of(target: str) -> None:
    assert said(target) == []


def test_this_machine_is_not_spoken_of() -> None:
    stack = probe()
    if any(stack.version(package) is None for package in ("trl", "transformers", "peft")):
        pytest.skip("without the packages there is nothing installed to be silent about")
    assert [finding for finding in stack_findings(stack, facts_for(stack)) if finding.severity == "error"] == []


@pytest.mark.parametrize(
    ("target", "rule", "severity", "message", "fix"),
    [
        pytest.param(
            "trl==0.15.9,transformers==4.30.0,peft==0.14.0,vllm==0.7.2",
            "STK011",
            "error",
            "trl 0.15.9 was never released",
            "trl==1.16.0",
            id="never-released",
        ),
        pytest.param(
            "trl==1.16.0,transformers==5.23.0,peft==0.21.9",
            "STK011",
            "warning",
            "peft 0.21.9 is newer than what grpo-run knows",
            "install peft 0.21.9 here",
            id="newer",
        ),
        pytest.param(
            "trl==0.13.0,transformers==4.48.3,peft==0.14.0",
            "STK011",
            "error",
            "nothing is known about trl 0.13.0",
            "trl==1.16.0",
            id="older-than-what-was-read",
        ),
        pytest.param(
            "trl==1.16.0,transformers==5.23.0",
            "STK011",
            "not-checked",
            "not checked against peft",
            "--target peft==VERSION",
            id="unknown",
        ),
        pytest.param(
            "trl==0.29.1,transformers==4.48.3,peft==0.14.0",
            "STK012",
            "error",
            "trl 0.29.1 declares transformers>=4.56.2, the stack has 4.48.3",
            "transformers==4.56.2, or trl==0.17.0",
            id="pip-refuses",
        ),
        pytest.param(
            "trl==0.24.0,transformers==4.57.6,peft==0.18.1,vllm==0.11.0",
            "STK012",
            "warning",
            "trl 0.24.0 declares vllm==0.10.2, in its extra vllm, the stack has 0.11.0",
            "vllm==0.10.2, or trl==0.23.1",
            id="outside-an-extra",
        ),
        pytest.param(
            "trl==0.15.2,transformers==4.52.4,peft==0.14.0",
            "STK013",
            "error",
            "trl 0.15.2 with transformers 4.52.4: training ends in TypeError",
            "transformers==4.51.3, or trl==0.17.0",
            id="cannot-train",
        ),
        pytest.param(
            "trl==0.14.0,transformers==4.52.4,peft==0.14.0",
            "STK013",
            "error",
            "trl 0.14.0 with transformers 4.52.4: the log-probs of completions are wrong",
            "transformers==4.51.3, or trl==0.17.0",
            id="silently-wrong",
        ),
        pytest.param(
            "trl==1.15.0,transformers==5.23.0,gpus=0,peft==0.21.2",
            "STK013",
            "error",
            "trl 1.15.0 without a GPU: training ends in AttributeError",
            "trl==1.16.0",
            id="without-a-gpu",
        ),
    ],
)
def test_each_mistake_is_named_with_a_way_out(target: str, rule: str, severity: str, message: str, fix: str) -> None:
    found = [finding for finding in said(target) if message in finding.message]
    assert [(finding.rule, finding.severity) for finding in found] == [(rule, severity)]
    assert found[0].fix is not None
    assert found[0].fix.startswith(fix)
    assert found[0].because or severity == "not-checked"


def test_a_version_that_never_was_is_one_mistake() -> None:
    assert [finding.rule for finding in said("trl==0.15.9,transformers==4.30.0,peft==0.14.0,vllm==0.7.2")] == [
        "STK011",
        "STK011",
        "STK012",
    ]
