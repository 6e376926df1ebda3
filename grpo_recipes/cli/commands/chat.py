"""Implements `grpo-run chat`: a conversation with a trained model, in the terminal or from a pipe."""

import io
import json
import re
import sys
from typing import Any

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.cli.launching import allow_code_option
from grpo_recipes.cli.options import a_run
from grpo_recipes.cli.trained_run import image_part, print_answer, read_trained_run
from grpo_recipes.contract.exits import EXIT_DONE, EXIT_FAILED, Refusal
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.report.trained_text import conversation_text, reply_text

_COMMANDS = "/reset starts a new conversation, /image FILE adds an image to the next message, /exit or Ctrl-D quits"


@click.command()
@click.argument("run", metavar="RUNDIR", shell_complete=files, callback=a_run)
@click.option("--greedy", is_flag=True, help="Take the most likely token instead of sampling as in the recipe.")
@allow_code_option
@click.option("--json", "as_json", is_flag=True, help="Print each answer as a line of JSON.")
def chat(run: str, greedy: bool, allowed: tuple[str, ...], as_json: bool) -> int:
    """Talk to a run's trained model; each line that you type or pipe in is a message.

    Uses the recipe's chat template, system prompt, stops, sampling and tools. Commands are /reset, /image FILE
    and /exit. Exit codes: 0 ended, 1 a line was not answered, 2 nothing was started, 3 tools differ from the run's.

    \b
    grpo-run chat runs/addition-20260101-120000
    """
    plan, folder = read_trained_run(run, allowed, with_rewards=False, with_tools=True)
    from grpo_recipes.launch.worker_part import Exchange, part_answer  # only needed to run something

    if sys.stdin is None:  # the caller closed it
        sys.stdin = io.StringIO()
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    unanswered: list[str] = []

    def refuse(line: str, because: str) -> None:
        unanswered.append(line)
        click.echo(redact(f"error: {because}"), err=True)

    def talk(exchange: Exchange) -> None:
        settings = exchange("loading the model")
        click.echo(redact(f"{conversation_text(settings)}\n{_COMMANDS}"), err=True)
        messages: list[Any] = []
        images: list[Any] = []
        while (line := _line()) != "/exit":
            if line == "/reset":
                messages, images = [], []
            elif line.startswith("/image "):
                try:
                    images.append(image_part(line.removeprefix("/image ").strip()))
                except Refusal as problem:
                    refuse(line, str(problem))
            elif re.fullmatch(r"/\w+", line):
                refuse(line, f"{line} is not a command: {_COMMANDS}")
            elif line:
                content = [*images, {"type": "text", "text": line}] if images else line
                conversation = [
                    *(messages if settings["is_conversation"] else []),
                    {"role": "user", "content": content},
                ]
                images = []
                reply = exchange("answering", {"messages": conversation})
                if "refused" in reply:
                    refuse(line, f"{reply['refused']}; {_COMMANDS}")
                    continue
                messages = [*conversation, *reply.pop("messages")]
                click.echo(redact(json.dumps(reply) if as_json else reply_text(reply)))
                click.echo(f"({reply['tokens']} tokens, {reply['ended_by']})", err=True)

    answer = part_answer(plan, "answering.start", "chat", {"run": folder, "greedy": greedy}, talk=talk)
    if answer["shown"] is None:
        return print_answer(answer, "chat", str, as_json=as_json)
    return EXIT_FAILED if unanswered else EXIT_DONE


def _line() -> str:
    """Returns the next line from the terminal or the pipe. Raises EOFError at the end."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if is_terminal:
        import readline  # noqa: F401 input() edits lines with it
    try:
        return input("> " if is_terminal else "").strip()
    except EOFError:
        if is_terminal:
            click.echo(err=True)
        raise
