"""How much of a run is shown while it trains: --quiet, --verbose, --samples."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from grpo_recipes.contract.errors import Refusal

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


def chosen_view(quiet: bool, verbose: bool, samples: int) -> "View":
    """The chosen view. Raises Refusal for contradictory options."""
    from grpo_recipes.launch.progress import View

    if quiet and verbose:
        raise Refusal.of("--quiet and --verbose cannot be combined", fix="remove one of them")
    if quiet and samples:
        raise Refusal.of("--quiet cannot be combined with --samples", fix="remove --quiet or --samples")
    return View("quiet" if quiet else "verbose" if verbose else "normal", samples)
