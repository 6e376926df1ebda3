"""`grpo-run completion`: prints the script that lets a shell complete command lines."""

import os

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete, split_arg_string

from grpo_recipes.contract.exits import EXIT_DONE

VARIABLE = "_GRPO_RUN_COMPLETE"
_SCRIPT = """\
%(complete_func)s() {
    local IFS=$'\\n' response completion type value
    response=$(env COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
    COMPREPLY=()
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        if [[ $type == 'plain' ]]; then
            COMPREPLY+=("$(printf '%%q' "$value")")
        else
            compopt -o default
        fi
    done
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]]; then
        compopt -o nospace
    fi
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class BashWords(BashComplete):
    """click's completion for bash, keeping the words as typed.

    bash splits `status=failed` into three words and replaces the last; it also inserts suggestions without quoting
    spaces. If there are no suggestions, bash completes files.
    """

    source_template = _SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("COMP_LINE", "").encode()
        point = os.environ.get("COMP_POINT", "")
        typed = line[: int(point)].decode(errors="replace") if point.isdecimal() else line.decode(errors="replace")
        words = split_arg_string(typed)
        incomplete = words.pop() if words and not typed[-1:].isspace() else ""
        return words[1:], incomplete

    def complete(self) -> str:
        args, incomplete = self.get_completion_args()
        items = self.get_completions(args, incomplete)
        breaks = set(os.environ.get("COMP_WORDBREAKS", "")) & {"=", ":"}
        cut = max((incomplete.rfind(mark) + 1 for mark in breaks), default=0)
        typed = incomplete[:cut]  # click strips it itself from the value of an option
        return "\n".join(
            f"plain,{item.value.removeprefix(typed)}" if item.type == "plain" else f"{item.type}," for item in items
        )


SHELLS: dict[str, type[ShellComplete]] = {"bash": BashWords, "zsh": ZshComplete, "fish": FishComplete}


def serve(cli: click.Command) -> int:
    """Answers a shell's completion request, as click does; returns the exit code."""
    shell, _, instruction = os.environ.get(VARIABLE, "").partition("_")
    if shell not in SHELLS or instruction not in ("source", "complete"):
        return 1
    complete = SHELLS[shell](cli, {}, "grpo-run", VARIABLE)
    click.echo(complete.source() if instruction == "source" else complete.complete())
    return EXIT_DONE


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the script that completes commands, options, keys, rules and files in a shell.

    \b
    eval "$(grpo-run completion bash)"             in ~/.bashrc
    eval "$(grpo-run completion zsh)"              in ~/.zshrc, after compinit
    grpo-run completion fish > ~/.config/fish/completions/grpo-run.fish
    """
    click.echo(SHELLS[shell](context.find_root().command, {}, "grpo-run", VARIABLE).source())
    return EXIT_DONE
