"""Cases of a rule: a recipe over a small valid one, a stack over a declared one, and what the rule says."""

import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from support.releases import TESTED

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.resolve.resolve import Resolution, resolve
from grpo_recipes.rules.catalog import rules
from grpo_recipes.stack.stack import Stack
from grpo_recipes.stack.target import parse_target

CASES = Path(__file__).with_name("cases")
BASE_RECIPE: dict[str, Any] = {
    "recipe": 1,
    "name": "case",
    "model": {"model_name_or_path": "owner/model"},
    "dataset": {"path": "owner/data", "prompt": "{{ question }}", "columns": {"solution": "{{ answer }}"}},
    "rewards": [{"name": "exact_match"}],
    "grpo": {"num_generations": 8},
    "training": {"prompts_per_step": 4, "max_steps": 10},
}
_PACKAGES = "python torch transformers trl peft accelerate datasets bitsandbytes deepspeed math-verify"
BASE_STACK = {**{name: TESTED[name] for name in _PACKAGES.split()}, "vllm": "absent", "gpus": "0"}


@dataclass(frozen=True, slots=True)
class Case:
    """One case of one rule.

    recipe: merged over BASE_RECIPE, null removes. stack: merged over BASE_STACK, null makes it unknown.
    files: texts of files beside the recipe. finds: "key" or "severity: key" of the rule's findings, in order.
    says: texts that the findings contain. also: rules whose errors the case has besides. settings: values that
    hold after all rules. no_patch: why findings without a fix as data have none. needs: a package that the rule reads
    where it is installed: the stack is then that of this machine.
    """

    rule: str
    id: str
    recipe: dict[str, Any] = field(default_factory=dict)
    stack: dict[str, str | None] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    finds: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    no_patch: str = ""
    needs: str = ""


def cases_of(rule: str, path: Path) -> list[Case]:
    """The cases in one file, in its order."""
    tuples = ("finds", "says", "also")
    written: list[dict[str, Any]] = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    cases: list[dict[str, Any]] = [
        {key: tuple(value) if key in tuples else value for key, value in case.items()} for case in written
    ]
    return [Case(rule=rule, **case) for case in cases]


def all_cases() -> list[Case]:
    """The cases of every rule that has a file."""
    files = {rule.id: CASES / f"{rule.name}.yaml" for rule in rules()}
    return [case for rule, path in files.items() if path.exists() for case in cases_of(rule, path)]


def laid_over(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The base with the changes: maps merge, lists replace, null removes."""
    result = copy.deepcopy(base)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = laid_over(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def declared(changes: dict[str, Any] | None = None) -> Stack:
    """The declared stack of the cases, with changes."""
    items = laid_over(BASE_STACK, changes or {})
    stack, findings = parse_target(",".join(f"{name}=={version}" for name, version in items.items()))
    assert stack is not None, findings
    return stack


def stack_of(case: Case) -> Stack:
    """The stack that a case is resolved for."""
    stack = declared(case.stack)
    return stack._replace(declared=False, origin="this machine") if case.needs else stack


def resolved(values: dict[str, Any], stack: Stack, folder: Path) -> Resolution:
    """What the resolver says of a recipe with these values, written into the folder."""
    path = folder / "case.yaml"
    path.write_text(json.dumps(values, indent=1), encoding="utf-8")  # JSON is YAML, and made in no time
    return resolve(str(path), stack)


def label(finding: Finding) -> str:
    """A finding as `finds` writes it."""
    return finding.key if finding.severity == "error" else f"{finding.severity}: {finding.key}"
