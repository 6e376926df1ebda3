"""`grpo-run completion`: the script with which a shell completes command lines, which is click's own."""

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from grpo_recipes.contract.exits import EXIT_DONE

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the script that completes commands, options, keys, rules and files in a shell.

    \b
    eval "$(grpo-run completion bash)"             in ~/.bashrc
    eval "$(grpo-run completion zsh)"              in ~/.zshrc, behind compinit
    grpo-run completion fish > ~/.config/fish/completions/grpo-run.fish
    """
    click.echo(SHELLS[shell](context.find_root().command, {}, "grpo-run", "_GRPO_RUN_COMPLETE").source())
    return EXIT_DONE
