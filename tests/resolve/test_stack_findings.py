"""What is said about a declared stack: releases, declared windows, and combinations that cannot work."""

from pathlib import Path

import pytest
from small_recipe import STACK, resolved
from support.releases import TRL, pinned

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts import unknown_members
from grpo_recipes.facts.facts import facts_for
from grpo_recipes.resolve.stack_findings import TESTED, stack_findings
from grpo_recipes.rules._shared.machines import OPTIONAL, packages_not_needed
from grpo_recipes.stack.probe import probe
from grpo_recipes.stack.stack import Stack
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
        f"{pinned('trl transformers peft')},gpus=8xH100-80GB",
    ],
)
def test_a_stack_of_releases_that_fit_is_not_spoken_of(target: str) -> None:
    assert said(target) == []


def test_no_vllm_that_cannot_start_is_named_instead() -> None:
    """Vllm 0.11.0 declares no bound, and asks tokenizers for what transformers 5 took away."""
    found = said("trl==1.0.0,transformers==5.4.0,peft==0.18.1,vllm==0.17.1")
    assert {finding.fix for finding in found} == {"pip install transformers==4.57.6"}


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
            f"trl=={TRL}",
            id="never-released",
        ),
        pytest.param(
            f"{pinned('trl transformers')},peft==0.21.9",
            "STK011",
            "warning",
            "peft 0.21.9 is newer than grpo-run knows",
            "install peft 0.21.9 here",
            id="newer",
        ),
        pytest.param(
            "trl==0.13.0,transformers==4.48.3,peft==0.14.0",
            "STK011",
            "error",
            "nothing is known about trl 0.13.0",
            f"trl=={TRL}",
            id="older-than-what-was-read",
        ),
        pytest.param(
            pinned("trl transformers"),
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
            "pip install transformers==4.56.2, or pip install trl==0.17.0",
            id="pip-refuses",
        ),
        pytest.param(
            "trl==0.24.0,transformers==4.57.6,peft==0.18.1,vllm==0.11.0",
            "STK012",
            "warning",
            "trl 0.24.0 declares vllm==0.10.2, in its extra vllm, the stack has 0.11.0",
            "pip install vllm==0.10.2, or pip install trl==0.23.1",
            id="outside-an-extra",
        ),
        pytest.param(
            "trl==0.15.2,transformers==4.52.4,peft==0.14.0",
            "STK013",
            "error",
            "trl 0.15.2 with transformers 4.52.4: training ends in TypeError",
            "pip install transformers==4.51.3, or pip install trl==0.17.0",
            id="cannot-train",
        ),
        pytest.param(
            "trl==0.14.0,transformers==4.52.4,peft==0.14.0",
            "STK013",
            "error",
            "trl 0.14.0 with transformers 4.52.4: the log-probs of completions are silently wrong",
            "pip install transformers==4.51.3, or pip install trl==0.17.0",
            id="silently-wrong",
        ),
        pytest.param(
            "trl==1.15.0,transformers==5.23.0,gpus=0,peft==0.21.2",
            "STK013",
            "error",
            "trl 1.15.0 without a GPU: training ends in AttributeError",
            "pip install trl==1.16.0",
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


DEMANDING = pinned("python torch trl transformers accelerate peft")


def _mended(target: str, command: str) -> str:
    """The target after `pip install PACKAGE==VERSION ...`."""
    pins = [*target.split(","), *command.removeprefix("pip install ").split()]
    return ",".join(f"{name}=={version}" for name, version in dict(pin.split("==") for pin in pins).items())


def test_what_the_findings_of_a_stack_say_to_install_goes_together() -> None:
    target = f"{DEMANDING},vllm==0.33.0"
    found = said(target)
    assert len(found) > 1
    fixes = {finding.fix for finding in found}
    assert len(fixes) == 1, "fixes of their own would contradict each other"
    for way in str(fixes.pop()).split(", or "):
        assert said(_mended(target, way)) == []


NEW = "python==3.12,accelerate==1.15.0,datasets==5.2.0,torch==2.14.0,vllm==0.33.0"


@pytest.mark.parametrize(
    ("target", "command"),
    [
        # What pip made of `trl vllm`, of `unsloth vllm`, and of `trl[vllm]` with a newer torch, on 2026-11-29.
        (f"{NEW},trl==1.16.0,transformers==5.20.2,peft==absent", "pip install vllm==0.30.0 torch==2.13.0"),
        (f"{NEW},trl==1.15.0,transformers==5.17.0,peft==0.21.2", "pip install vllm==0.31.0 torch==2.13.0"),
        (f"{NEW},trl==0.23.1,transformers==5.20.2,peft==0.21.2", "pip install trl==1.16.0 vllm==0.30.0 torch==2.13.0"),
    ],
)
def test_a_stack_with_vllm_keeps_it_and_is_mended_by_one_line(target: str, command: str) -> None:
    assert {finding.fix for finding in said(target) if finding.severity != "note"} == {command}
    assert said(_mended(target, command)) == []


def test_where_no_releases_are_known_to_go_together_a_tested_stack_with_vllm_is_named() -> None:
    found = said("python==3.9,trl==0.29.1,transformers==4.48.3,peft==0.14.0,torch==2.9.0,vllm==0.33.0")
    assert {finding.fix for finding in found} == {TESTED.format("train,vllm")}


@pytest.mark.parametrize(
    ("newer", "message", "fix"),
    [
        ("torch==2.15.0", "torch 2.15.0 is newer than tested; checked as for 2.13.0", "pip install torch==2.13.0"),
        ("torch==2.14.1+cu130", "torch 2.14.1+cu130 is newer than tested", "pip install torch==2.13.0"),
        # With an older torch, this vLLM could not be imported.
        ("torch==2.14.0,vllm==0.33.0", "torch 2.14.0 is newer than tested", None),
    ],
)
def test_a_release_that_was_not_tested_is_named_with_what_was_checked(newer: str, message: str, fix: str) -> None:
    notes = [finding for finding in said(f"{pinned('trl transformers peft')},{newer}") if finding.severity == "note"]
    assert [(finding.rule, finding.fix) for finding in notes] == [("STK011", fix)]
    assert notes[0].message.startswith(message)


def test_an_installed_release_that_is_newer_than_tested_is_never_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its source is compared with the members that a training relies on, also if only transformers is newer."""
    compared = []
    monkeypatch.setattr(unknown_members, "unknown_members", lambda release: compared.append(release) or [])
    tested = dict(pin.split("==") for pin in pinned("trl transformers peft").split(","))
    stack = Stack("3.11", tested, None, None, False, "this machine")
    assert stack_findings(stack, facts_for(stack)) == [] and compared == []
    stack = stack._replace(packages={**tested, "transformers": "5.99.0", "accelerate": "1.99.0"})
    (note,) = stack_findings(stack, facts_for(stack))
    assert (note.rule, note.severity) == ("STK011", "note")
    assert note.message.startswith("transformers 5.99.0 and accelerate 1.99.0 are newer than tested")
    assert compared == [tested["trl"]]


def test_a_package_that_is_not_used_is_not_judged() -> None:
    stack, _ = parse_target(f"{DEMANDING},vllm==0.33.0")
    assert stack is not None
    assert [finding.rule for finding in stack_findings(stack, facts_for(stack))] == ["STK012"] * 3
    assert stack_findings(stack, facts_for(stack), {"vllm"}) == []


# section or key of a recipe, the package that it uses
USED = [
    ("", set()),
    ("generation: {use_vllm: true}", {"vllm"}),
    ("lora: {r: 4}", {"peft"}),
    ("lora: {r: 4}\nquantization: {load_in_4bit: true}", {"peft", "bitsandbytes"}),
    ("training: {optim: paged_adamw_8bit}", {"bitsandbytes"}),
    ("distributed: {strategy: zero2}\nlaunch: {num_processes: 2}", {"deepspeed"}),
    ("trl: {use_liger_kernel: true}", {"liger-kernel"}),
]


@pytest.mark.parametrize(("text", "used"), USED, ids=[text or "nothing" for text, _ in USED])
def test_a_recipe_uses_what_it_asks_for(text: str, used: set[str], tmp_path: Path) -> None:
    context = resolved(tmp_path, text, f"{STACK},gpus=2xH100-80GB".replace(",gpus=0", "")).context
    assert context is not None
    assert OPTIONAL - packages_not_needed(context) == used
