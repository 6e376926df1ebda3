"""How much of a run is seen while it goes on: --quiet, --verbose, --samples."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from grpo_recipes.errors import Refusal

if TYPE_CHECKING:
    from grpo_recipes.launch.progress import View

MOST_SAMPLES = 64
_Command = TypeVar("_Command", bound=Callable[..., Any])


def view_options(command: _Command) -> _Command:
    """Adds the options, given to the command as `quiet`, `verbose` and `samples`."""
    verbose = click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="While it trains, keep a line of each step and of each phase of the start.",
    )
    quiet = click.option(
        "-q", "--quiet", is_flag=True, help="While it trains, say only what needs you: warnings, stops, failures."
    )
    samples = click.option(
        "--samples",
        metavar="N",
        type=click.IntRange(0, MOST_SAMPLES),
        default=0,
        help="While it trains, show so many completions with their rewards now and then; with -v of each step.",
    )
    return quiet(verbose(samples(command)))


def chosen_view(quiet: bool, verbose: bool, samples: int) -> "View":
    """The view that was asked for. Raises Refusal for opposites."""
    from grpo_recipes.launch.progress import View

    if quiet and verbose:
        raise Refusal.of("--quiet and --verbose are opposites", fix="leave one of them out")
    if quiet and samples:
        raise Refusal.of("--quiet shows no samples", fix="leave --quiet or --samples out")
    return View("quiet" if quiet else "verbose" if verbose else "normal", samples)
