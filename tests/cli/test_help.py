"""What --help says: the first steps, and a sentence for each command and option."""

import shlex
from collections.abc import Callable

import click
import pytest

from grpo_recipes.cli.main import COMMANDS
from grpo_recipes.cli.main import grpo_run as group


def test_the_help_has_the_first_steps_and_each_is_a_command(grpo_run: Callable) -> None:
    lines = [line.split() for line in grpo_run("--help").out.splitlines() if line.startswith("  grpo-run ")]
    steps = [words[1] for words in lines if words[1] not in ("RECIPE", "run")]
    assert steps == ["init", "validate", "preflight", "recipe.yaml", "recipe.yaml"]


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_and_option_has_a_sentence(name: str) -> None:
    command = group.get_command(click.Context(group), name)  # type: ignore[attr-defined]
    assert command is not None
    assert command.help
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.help, option.name
            assert option.help[0].isupper(), option.name
            assert option.help.rstrip(")").endswith((".", "]")), option.name


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "completion"])
def test_each_command_has_an_example_that_it_takes(name: str, grpo_run: Callable) -> None:
    lines = [line.strip() for line in grpo_run(name, "--help").out.splitlines()]
    examples = [line for line in lines if line.split()[:2] == ["grpo-run", name]]
    assert examples
    command = group.get_command(click.Context(group), name)  # type: ignore[attr-defined]
    assert command is not None
    for example in examples:
        command.make_context(name, shlex.split(example)[2:])
