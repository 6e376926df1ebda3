"""Asks for consent, launches, and reports the result, for every command that starts processes."""

import gc
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grpo_recipes.cli.options import RunOptions
from grpo_recipes.contract.exits import EXIT_DONE, EXIT_FAILED
from grpo_recipes.contract.host.standard_streams import take_output_problem
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.render.job import job_of
from grpo_recipes.resolve.resolve import Resolution, plan_of
from grpo_recipes.resolve.variants.merged_recipe import merged_recipe_text, smoke_plan
from grpo_recipes.yaml.compose import Source

if TYPE_CHECKING:
    from grpo_recipes.contract.run_record import RunRecord
    from grpo_recipes.launch.progress import View

CODE_KEYS = {
    ("rewards",),
    ("tools",),
    ("environment",),
    ("environments",),
    ("rollout",),
    ("preflight",),
    ("launch", "sandbox"),
}
"""Recipe keys that name files with the user's own code, or configure it."""
allow_code_option = click.option(
    "--allow-code",
    "allowed",
    metavar="SHA",
    multiple=True,
    help="Allow the recipe's code by its sha256; `here` allows the recipe's own folder, also after edits.",
)
Prepare = Callable[[], Sequence[str]]
Restart = Callable[[Plan, str], tuple[Plan, str] | None]


@dataclass(frozen=True, slots=True)
class Ready:
    """A plan to launch. recipe_text: the text of its recipe.yaml. beside: the parent of its run folder.

    is_pinned: planned earlier, so newer versions on the hub are ignored. files: recipe_files of a recipe.
    continues_from: the run folder whose checkpoint it resumes, None if it begins at step 0.
    """

    plan: Plan
    recipe_text: str
    beside: str = "runs"
    is_pinned: bool = False
    files: tuple[str, ...] = ()
    continues_from: str | None = None


def names_a_plan(argument: str) -> bool:
    """Whether the argument of `run` is a run folder or a plan, not a recipe."""
    return os.path.isdir(argument) or argument.endswith(".json")


def prepare_run(resolution: Resolution) -> Ready:
    """Returns what it takes to launch a recipe that is not refused."""
    assert resolution.context is not None
    source = resolution.context.source
    return Ready(plan_of(resolution), merged_recipe_text(source), files=recipe_files(source))


def recipe_files(source: Source) -> tuple[str, ...]:
    """The recipe, and its own (not shipped) parents that set its rewards and tools."""
    with_code = {
        mark.file for path, mark in source.marks.items() if {path[:1], path[:2]} & CODE_KEYS
    } - source.folders.keys()
    return tuple(file for file in source.files if file == source.file or file in with_code)


def ask_trust(
    plan: Plan,
    given: tuple[str, ...],
    files: tuple[str, ...] = (),
    *,
    folder: str | None = None,
    plays_turns: bool = False,
) -> None:
    """Prints the code that is allowed by its folder. Raises Refusal for code that this user has not allowed.

    given: by --allow-code. files: recipe_files of a newly planned recipe; none for an earlier plan.
    folder: the run folder of the checkpoint. plays_turns: preflight.turns will be played.
    """
    from grpo_recipes.trust.code import code_parts, turn_parts
    from grpo_recipes.trust.folders import checkpoint_parts, consent

    parts = [
        *code_parts(plan),
        *(checkpoint_parts(folder) if folder is not None else ()),
        *(turn_parts(plan) if plays_turns else ()),
    ]
    for line in consent(parts, given, files):
        click.echo(redact(line), err=True)


def start_new_run(ready: Ready, options: RunOptions, view: "View", restart: Restart = lambda plan, folder: None) -> int:
    """Writes a new run folder and, without --dry-run, starts it; returns the exit code."""
    if options.dry_run:
        folder = _complete_and_write(_shorten_if_smoke(ready.plan, options), options.out, ready, is_code_pinned=False)
        print_dry_run(folder, f"{shlex.quote(folder)} --resume", options)
        return EXIT_DONE
    return launch_run(*create_run(ready, options, options.out), as_json=options.as_json, view=view, restart=restart)


def print_dry_run(folder: str, words: str, options: RunOptions) -> None:
    """Prints the folder that --dry-run wrote, and on stderr the command that starts it. words: of that command."""
    click.echo(redact(json.dumps({"folder": folder}) if options.as_json else folder))
    where = " on the machine of --target" if options.target is not None else ""
    click.echo(redact(f"nothing was started; next{where}: grpo-run {words}"), err=True)


def create_run(ready: Ready, options: RunOptions, out: str | None) -> tuple[Plan, str]:
    """Asks for trust in the plan's code and writes its run folder; returns both."""
    from grpo_recipes.lock.pinned import with_pinned_code

    plan = with_pinned_code(_shorten_if_smoke(ready.plan, options), is_pinned=ready.is_pinned)
    ask_trust(plan, options.allowed, ready.files, folder=ready.continues_from)
    return plan, _complete_and_write(plan, out, ready, is_code_pinned=True)


def _shorten_if_smoke(plan: Plan, options: RunOptions) -> Plan:
    """With --smoke, two steps of the plan."""
    return smoke_plan(plan) if options.smoke and not plan.smoke else plan


def _complete_and_write(plan: Plan, out: str | None, ready: Ready, *, is_code_pinned: bool) -> str:
    """Adds digests and commits to the plan, and writes its run folder."""
    from grpo_recipes.engines.base import engine_of
    from grpo_recipes.launch.display import busy
    from grpo_recipes.lock.pinned import complete_plan
    from grpo_recipes.render.run_folder import write_run_folder

    if out is None:
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        out = os.path.join(ready.beside, f"{plan.name}-{'smoke-' if plan.smoke else ''}{stamp}")
    with busy("writing the run folder"):  # model and data are read for their digests, or looked up on the hub
        whole = complete_plan(plan, is_pinned=ready.is_pinned, is_code_pinned=is_code_pinned)
        whole = replace(whole, folder=os.path.abspath(out))
        _warn_of_other_profile(whole)
        return write_run_folder(whole, out, ready.recipe_text, engine_of(whole).files(whole))


def _warn_of_other_profile(plan: Plan) -> None:
    """Warns if the rows of a local file were profiled with a different model; all digests are known only now."""
    from grpo_recipes.contract.profile import OTHER, other_profile
    from grpo_recipes.user_files.local_rows import first_row

    files = [data.path for data in plan.training_data.values() if data.source == "file"]
    if different := [line for file in files for line in other_profile(plan, first_row(file))]:
        click.echo(redact(f"warning: {OTHER}: {'; '.join(different)}"), err=True)


def launch_run(
    plan: Plan,
    folder: str,
    *,
    as_json: bool,
    resume: bool = False,
    follow: bool = False,
    view: "View | None" = None,
    prepare: Prepare = list,
    restart: Restart = lambda plan, folder: None,
) -> int:
    """Starts a run folder through the engine of its plan, reports the result, returns the exit code.

    Files in the folder never choose the engine. follow: follow the active run instead of starting one. view: how much
    is shown. For a --smoke run, it prints whether it passed. prepare: called after the folder is locked and before
    anything is started; returns lines to print. `restart`: called after the run; returns a plan and a run folder to
    launch instead, once.
    """
    from grpo_recipes.engines.base import engine_of
    from grpo_recipes.launch.progress import NORMAL
    from grpo_recipes.launch.stop_signals import never_stopped_by_output

    view = view or NORMAL
    gc.enable()
    never_stopped_by_output()
    engine = engine_of(plan)
    click.echo(redact(f"run folder {folder}"), err=True)
    if follow:
        code = engine.follow(folder, echo=sys.stderr, view=view)
    else:
        code = engine.start(plan, folder, resume=resume, echo=sys.stderr, view=view, prepare=prepare)
        if commands := engine.commands(plan, folder, resume=resume):
            _print_commands(plan, folder, commands, engine.advice(plan, folder), as_json=as_json)
            return code
    if code == EXIT_FAILED and (other := restart(plan, folder)) is not None:
        return launch_run(*other, as_json=as_json, view=view)
    return conclude_run(plan, folder, code, as_json=as_json)


def conclude_run(plan: Plan, folder: str, code: int, *, as_json: bool) -> int:
    """Prints on stdout how a run ended, and returns its exit code."""
    from grpo_recipes.contract.files.folder_files import read_text
    from grpo_recipes.contract.integrity.used_run import find_changed_files
    from grpo_recipes.contract.run_record import read_record
    from grpo_recipes.launch.summary import summary

    record, changed = read_record(folder), [str(fault) for fault in find_changed_files(Path(folder))]
    if record is not None:
        text = read_text(Path(folder), "run.json") if as_json else summary(record, folder, _width())
        if as_json and changed:
            text = json.dumps({**json.loads(text), "changed": changed}, indent=2, ensure_ascii=False) + "\n"
        click.echo(redact(text), nl=False)
    for line in changed:
        click.echo(redact(line), err=True)
    if plan.smoke:
        click.echo(redact(_verdict(code, record)), err=as_json)
    if (problem := take_output_problem(sys.stdout)) is not None:  # the exit code is the run's
        click.echo(redact(f"could not print the result, see run.json: {problem.strerror}"), err=True)
    return code


def _width() -> int:
    """The terminal's width in columns, 100 without a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 100


def _verdict(code: int, record: "RunRecord | None") -> str:
    from grpo_recipes.contract.run_record import peak_text

    if code != EXIT_DONE or record is None:
        return "smoke failed"
    is_open = record.proofs is None or any(
        isinstance(proof, dict) and proof.get("ok") is None for proof in record.proofs
    )
    words = ["smoke passed", "but not everything could be checked" if is_open else "", peak_text(record)]
    return ", ".join(filter(None, words))


def _print_commands(plan: Plan, folder: str, commands: list[str], advice: list[str], *, as_json: bool) -> None:
    """Prints the commands to type, and on stderr the advice about them."""
    for line in advice:
        click.echo(redact(line), err=True)
    if as_json:
        job = job_of(plan)
        answer = {"folder": folder, "address": job.address, "port": job.port, "commands": commands}
        click.echo(redact(json.dumps(answer, indent=2)))
    else:
        click.echo(redact("\n".join(commands)))
