"""`grpo-run doctor`: shows this machine's stack, what is missing, and its known defects."""

import dataclasses
import json
import os

import click

from grpo_recipes.cli.options import choose_stack, missing_for_training, target_option
from grpo_recipes.contract.exits import EXIT_DONE
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.findings_text import findings_text
from grpo_recipes.contract.host.child_environment import (
    OF_DEEPSPEED,
    OF_THE_HUB,
    OF_VLLM,
    find_locked_caches,
    limits,
    small_for_nccl,
)
from grpo_recipes.contract.sandbox.run import abi, available
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.facts.facts import facts_for
from grpo_recipes.report.findings_formats import finding_value
from grpo_recipes.report.plan_text import defects_text, stack_text
from grpo_recipes.resolve.known_defects import known_defects
from grpo_recipes.resolve.stack_findings import stack_findings
from grpo_recipes.rules._shared.fitting import DRIVER, TRITON, torch_and_driver, triton_compiler
from grpo_recipes.rules._shared.machines import command_for
from grpo_recipes.rules.stack_is_complete import ID as NOT_COMPLETE
from grpo_recipes.stack.stack import Stack, to_json_value


@click.command()
@target_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON that --target reads.")
def doctor(target: str | None, as_json: bool) -> int:
    """Show packages, GPUs and the sandbox, what is missing for a run, and known defects of these releases.

    \b
    grpo-run doctor --json
    """
    stack = choose_stack(target, trains=True)
    findings = [
        *stack_findings(stack, facts_for(stack), compares_members=True),
        *_missing(stack),
        *_of_the_gpus(stack),
        *_of_the_caches(stack),
        *(small_for_nccl() if not stack.declared and len(stack.gpus or ()) > 1 else []),
    ]
    known = [] if stack.is_absent("trl") else known_defects(stack)
    sandbox = None if stack.declared else available()
    if as_json:
        value = {
            "doctor": 1,
            "stack": to_json_value(stack),
            **({} if stack.declared else {"sandbox": sandbox, "limits": limits()._asdict()}),
            "findings": [finding_value(finding, stack.origin) for finding in findings],
            "known": [dataclasses.asdict(defect) for defect in known],
        }
        click.echo(redact(json.dumps(value, indent=2)))
    else:
        text = findings_text(findings, stack.origin) or _nothing_missing(stack)
        defects = [] if stack.is_absent("trl") else [defects_text(known)]
        shown = stack_text(stack) if stack.declared else f"{stack_text(stack)}\n{_of_the_sandbox(sandbox)}"
        click.echo(redact("\n\n".join([shown, text, *defects])))
    return EXIT_DONE


def _nothing_missing(stack: Stack) -> str:
    on_the_cpu = ", on the CPU with launch.gpus_per_node: 0" if stack.gpus is None and not stack.declared else ""
    return f"this stack has everything that a run needs{on_the_cpu}"


def _of_the_sandbox(mechanism: str | None) -> str:
    """Describes the sandbox for model-written code on one line."""
    version = f" {abi()}" if mechanism == "landlock" else ""
    return f"{'sandbox':<14}{mechanism or 'missing: neither Landlock (Linux 5.13) nor bubblewrap works'}{version}"


def _missing(stack: Stack) -> list[Finding]:
    missing = missing_for_training(stack)
    if not missing:
        return []
    text = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
    why = "nothing can train here; validate, plan, diff and fit judge as for --target tested"
    fix = command_for(stack, missing, "train")
    return [Finding(NOT_COMPLETE, "error", text, because=() if stack.declared else (why,), fix=fix)]


def _of_the_gpus(stack: Stack) -> list[Finding]:
    """Problems that prevent training on the GPUs, as the rules would report them for a recipe."""
    known = {DRIVER: torch_and_driver(stack), TRITON: triton_compiler(stack)}
    return [Finding(rule, "error", why.message, because=why.because, fix=why.fix) for rule, why in known.items() if why]


def _of_the_caches(stack: Stack) -> list[Finding]:
    """The caches of installed packages that this user cannot write to."""
    if stack.declared:
        return []
    by_package = {"vllm": OF_VLLM, "deepspeed": OF_DEEPSPEED}
    packages = [*OF_THE_HUB]
    for package, caches in by_package.items():
        packages += [] if stack.is_absent(package) else caches
    locked = find_locked_caches(os.environ, packages, "warning")
    return [] if locked is None else [locked]
