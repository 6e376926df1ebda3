"""The options shared by several commands, and the stack and view that they select."""

import os
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from grpo_recipes.cli.completion import acceptable_rules, files, keys_to_set
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.stack.probe import probe
from grpo_recipes.stack.stack import Stack

if TYPE_CHECKING:
    from grpo_recipes.launch.progress import View

target_option = click.option(
    "--target",
    metavar="STACK",
    shell_complete=files,
    help="Declare the stack instead of using this machine's: trl==1.9.0,peft==0.19.1,gpus=8xH100-80GB;"
    " tested, the stack of grpo-run's own tests, as in tested,gpus=8xH100-80GB; or a file printed by"
    " `grpo-run doctor --json`.",
)
set_option = click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    shell_complete=keys_to_set,
    help="Override one value, e.g. grpo.beta=0.04 or rewards[0].weight=2; repeatable.",
)
accept_option = click.option(
    "--accept",
    "accepted",
    metavar="RULE",
    multiple=True,
    shell_complete=acceptable_rules,
    help="Treat errors of this rule, e.g. GEN001, as warnings: for a patched library that does not fail there.",
)
strict_option = click.option("--strict", is_flag=True, help="Treat unchecked points as errors.")
_Command = TypeVar("_Command", bound=Callable[..., Any])


def recipe_options(command: _Command) -> _Command:
    """Adds --set, --target, --strict and --accept."""
    return set_option(target_option(strict_option(accept_option(command))))


class RunOptions(NamedTuple):
    """The options of `run`; other commands that read a recipe have some of them."""

    overrides: tuple[str, ...] = ()
    target: str | None = None
    strict: bool = False
    accepted: tuple[str, ...] = ()
    validate_only: bool = False
    dry_run: bool = False
    smoke: bool = False
    out: str | None = None
    resuming: bool = False
    extending: str | None = None
    verifying: bool = False
    accept_drift: bool = False
    allowed: tuple[str, ...] = ()
    as_json: bool = False

    @property
    def trains(self) -> bool:
        """Whether the options start a training, not only plan it."""
        return not (self.validate_only or self.dry_run)

    @property
    def is_of_a_recipe(self) -> bool:
        """Whether any option changes the plan, or only prints it."""
        return any((self.overrides, self.accepted, self.target, self.validate_only, self.dry_run, self.smoke))


def a_run(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """The callback of an argument that takes runs: explains that to users who name a recipe or mistype a folder."""
    for run in value if isinstance(value, tuple) else [value]:
        if not os.path.exists(run):
            from grpo_recipes.user_files.local_files import near_path

            if (near := near_path(run, os.path.abspath(run), folders=True)) is not None:
                raise Refusal.of(f"{run} does not exist", fix=f"{near}, if you meant that")
        if run.endswith((".yaml", ".yml")) and os.path.isfile(run):
            raise Refusal.of(
                f"{run} is not a run folder",
                because="it is a recipe",
                fix=f"name the folder of a run, as in runs/; grpo-run {shlex.quote(run)} trains one",
            )
    return value


def choose_stack(target: str | None, *, trains: bool = False, announce: bool = True) -> Stack:
    """The declared stack, or this machine's; the tested one if this machine lacks the training stack.

    trains: this machine's in any case. announce: say on stderr that it is the tested one. Raises Refusal for an
    unreadable target.
    """
    if target is None:
        machine = probe()
        missing = [] if trains else missing_for_training(machine)
        if not missing:
            return machine
        target = "tested"
        if announce:
            from grpo_recipes.contract.secrets.redact import redact

            click.echo(redact(f"this machine lacks {', '.join(missing)}: judged as for --target {target}"), err=True)
    from grpo_recipes.stack.target import parse_target

    stack, findings = parse_target(target)
    if stack is None or any(finding.severity == "error" for finding in findings):
        raise Refusal(*findings)
    return stack


def missing_for_training(stack: Stack) -> list[str]:
    """The packages of every training that are known not to be installed."""
    from grpo_recipes.rules._shared.machines import ALWAYS  # `--help` does not pay for the rules

    return [package for package in ALWAYS if stack.is_absent(package)]


MOST_SAMPLES = 64


def view_options(command: _Command) -> _Command:
    """Adds the options, given to the command as `quiet`, `verbose` and `samples`."""
    verbose = click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="While training, keep a line for each step and each phase of the start.",
    )
    quiet = click.option("-q", "--quiet", is_flag=True, help="While training, print only warnings, stops and failures.")
    samples = click.option(
        "--samples",
        metavar="N",
        type=click.IntRange(0, MOST_SAMPLES),
        default=0,
        help="While training, show this many completions with their rewards now and then; with -v at each step.",
    )
    return quiet(verbose(samples(command)))


def choose_view(quiet: bool, verbose: bool, samples: int) -> "View":
    """The chosen view. Raises Refusal for contradictory options."""
    from grpo_recipes.launch.progress import View

    if quiet and verbose:
        raise Refusal.of("--quiet and --verbose cannot be combined", fix="remove one of them")
    if quiet and samples:
        raise Refusal.of("--quiet cannot be combined with --samples", fix="remove --quiet or --samples")
    return View("quiet" if quiet else "verbose" if verbose else "normal", samples)
