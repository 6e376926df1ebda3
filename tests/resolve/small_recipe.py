"""A small valid recipe, on which the mistakes of these tests are made."""

from pathlib import Path

from support.releases import pinned

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.resolve.resolve import Resolution, resolve
from grpo_recipes.stack.stack import Stack
from grpo_recipes.stack.target import parse_target

BASE = """\
recipe: 1
name: base
model: {model_name_or_path: owner/model}
dataset: {path: owner/data, prompt: "{{ question }}", columns: {solution: "{{ answer }}"}}
rewards: [{name: exact_match}]
training: {prompts_per_step: 4, max_steps: 10}
"""
STACK = (
    f"{pinned('python torch trl transformers peft accelerate datasets')},"
    "bitsandbytes==0.50.2,deepspeed==0.19.8,math-verify==0.9.0,vllm==absent,gpus=0"
)


def declared(text: str = STACK) -> Stack:
    """The stack that the text declares."""
    stack, findings = parse_target(text)
    assert stack is not None, findings
    return stack


def resolved(folder: Path, text: str, stack: str | Stack = STACK) -> Resolution:
    """What the resolver says of the text over the base recipe. stack: a target as text, or a stack."""
    (folder / "base.yaml").write_text(BASE, encoding="utf-8")
    (folder / "recipe.yaml").write_text(f"extends: base.yaml\n{text}\n", encoding="utf-8")
    return resolve(str(folder / "recipe.yaml"), declared(stack) if isinstance(stack, str) else stack)


def errors(resolution: Resolution) -> list[Finding]:
    """The findings that forbid to start."""
    return [finding for finding in resolution.findings if finding.severity == "error"]
