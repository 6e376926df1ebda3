"""`grpo-run`: finds the command, runs it, and reports its failures."""

import errno
import gc
import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpo_recipes.contract.exits import SYSTEM_FIXES, Refusal
from grpo_recipes.contract.files.regular_file import NotRegular

_NOT_UTF8 = re.compile(r'[^"\n]*[\ud800-\udfff][^"\n]*')


def refusal_of(problem: Exception) -> Refusal | None:
    """The message for an exception caused by the machine, None for any other."""
    if isinstance(problem, UnicodeEncodeError) and (match := _NOT_UTF8.search(problem.object)) is not None:
        name = match[0].strip().encode("utf-8", "backslashreplace").decode()
        return Refusal.of(
            f"{name}: this name is not UTF-8",
            because="plans only support names in UTF-8",
            fix="rename it",
        )
    if isinstance(problem, MemoryError):
        problem = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    if not isinstance(problem, OSError):
        return None
    if isinstance(problem, FileNotFoundError) and _is_without_folder():
        return Refusal.of(
            "the current folder no longer exists",
            because="it was removed while this shell was in it",
            fix="cd to an existing folder",
        )
    if isinstance(problem, NotRegular):
        return Refusal.of(str(problem))
    if problem.errno is None or problem.errno not in SYSTEM_FIXES:
        return None
    where = "" if problem.filename is None else f"{os.fsdecode(problem.filename)}: "
    return Refusal.of(f"{where}{os.strerror(problem.errno)}", fix=SYSTEM_FIXES[problem.errno])


def _is_without_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


# A check frees nothing before it ends, so garbage collection would only cost time; a run enables it again.
gc.disable()

import click

from grpo_recipes import __version__
from grpo_recipes.contract.exits import EXIT_DONE, EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_NOT_STARTED, Refusal
from grpo_recipes.contract.host.standard_streams import make_steady, take_output_problem

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Name -> the line in --help; the module is imported only when the command is used.
COMMANDS = {
    "run": "Train a recipe (the default command).",
    "validate": "Check recipes; no torch, no GPU.",
    "preflight": "Try data, tokenizer, rewards and tools; no model, no GPU.",
    "plan": "Show every value of a run with its origin.",
    "fit": "Estimate the GPU memory that a recipe needs.",
    "explain": "Explain a rule or a key.",
    "sweep": "Train a recipe with different values and seeds, and compare.",
    "watch": "Show a run that another process trains.",
    "runs": "List and compare the runs of a folder.",
    "report": "Write an HTML page about one or more runs.",
    "diff": "Compare recipes, plans, runs, or two stacks.",
    "export": "Export a run's trained model, with a proof.",
    "profile": "Measure how often the model solves each training row.",
    "generate": "Answer a prompt or rows with a run's trained model.",
    "chat": "Talk to a run's trained model.",
    "init": "Write a new, a shipped or a converted recipe, or one for your data.",
    "doctor": "Show this machine's stack and its known defects.",
    "schema": "Print the JSON Schema for editors.",
    "completion": "Print the shell completion script.",
    "allowed": "List folders whose code is allowed, or forget one.",
}
# Commands that need an argument.
NEEDING = ("run", "validate", "preflight", "profile", "plan", "fit", "diff", "watch")


class Commands(click.Group):
    """Finds commands by name, and treats anything else as the recipe of `run`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"grpo_recipes.cli.commands.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        from grpo_recipes.cli.completion import first_words

        # click's own Group would import all commands for their help.
        names = [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]
        return first_words([*names, *click.Command.shell_complete(self, ctx, incomplete)], incomplete)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = [arg for arg in args if not arg.startswith("-")]
        first = words[0] if words else None
        own = {"--help", "--version"}
        if len(words) == 1 and first in NEEDING and os.path.isfile(os.path.join(first, "plan.json")):
            # A run folder may have the name of a command that needs an argument and gets none.
            args, first = [os.path.join(os.curdir, arg) if arg == first else arg for arg in args], None
        if args and first not in COMMANDS and not (own & set(args[:1])):
            if (
                not ctx.resilient_parsing
                and first == args[0]
                and not os.path.lexists(first)
                and "." not in first
                and os.sep not in first
            ):
                from grpo_recipes.cli.typos import no_command

                raise no_command(args, list(COMMANDS))
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.command(cls=Commands, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="grpo-run")
def grpo_run() -> None:
    """Train language models with GRPO from one YAML recipe.

    grpo-run RECIPE checks the recipe, plans it for this machine's stack, and trains; for its options see grpo-run run
    --help.

    \b
    grpo-run init                   writes a small recipe, recipe.yaml
    grpo-run validate recipe.yaml   checks it in a second
    grpo-run preflight recipe.yaml  tries its data, rewards and tools
    grpo-run recipe.yaml --smoke    trains two steps
    grpo-run recipe.yaml            trains
    """


def main(arguments: list[str] | None = None) -> None:
    """Runs a command and exits with its code: one message for a refusal, a traceback and exit 70 for a defect."""
    make_steady()
    if "_GRPO_RUN_COMPLETE" in os.environ:
        sys.exit(importlib.import_module("grpo_recipes.cli.commands.completion").serve(grpo_run))
    try:
        code = grpo_run.main(arguments, prog_name="grpo-run", standalone_mode=False)
    except Refusal as refusal:
        code = _print_refusal(refusal)
    except click.ClickException as error:
        code = _print_usage_error(error, sys.argv[1:] if arguments is None else arguments)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        code = EXIT_INTERRUPTED
    except Exception as problem:
        refused = refusal_of(problem)
        code = _print_crash(problem) if refused is None else _print_refusal(refused)
    exit_code = _with_answer(code if isinstance(code, int) else EXIT_DONE)
    gc.freeze()  # the system frees everything at once
    sys.exit(exit_code)


def _print_refusal(refusal: Refusal) -> int:
    from grpo_recipes.contract.secrets.redact import redact

    click.echo(redact(f"error: {refusal}"), err=True)
    return refusal.exit_code


def _print_crash(problem: Exception) -> int:
    import traceback

    from grpo_recipes.contract.host.foreign_modules import foreign_module
    from grpo_recipes.contract.secrets.redact import redact

    if (foreign := foreign_module(problem)) is not None:
        return _print_refusal(Refusal(foreign))
    click.echo(redact(traceback.format_exc()), err=True, nl=False)
    click.echo(f"grpo-run {__version__}: this is a defect of grpo-run, not of the recipe", err=True)
    return EXIT_INTERNAL


def _with_answer(code: int) -> int:
    """The exit code, after an error if the answer could not be printed; a closed pipe is not an error."""
    problem = take_output_problem(sys.stdout)
    if problem is None or problem.errno in (errno.EPIPE, errno.EIO):
        return code
    from grpo_recipes.contract.secrets.redact import redact

    click.echo(redact(f"error: the answer could not be printed: {os.strerror(problem.errno or 0)}"), err=True)
    return code or EXIT_NOT_STARTED


def _print_usage_error(error: click.ClickException, given: Sequence[str]) -> int:
    """Prints click's message about a wrong command line, without secrets; returns the exit code."""
    import contextlib
    import io

    from grpo_recipes.cli.typos import suggestion_for
    from grpo_recipes.contract.secrets.redact import redact

    if isinstance(error, click.UsageError) and (answer := suggestion_for(error, given)):
        error = click.UsageError(answer, error.ctx)
    output = io.StringIO()
    with contextlib.suppress(UnicodeError):
        error.show(file=output)
    click.echo(redact(output.getvalue()), err=True, nl=False)
    return EXIT_NOT_STARTED


if __name__ == "__main__":
    main()
