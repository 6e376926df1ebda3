"""What every command that starts processes does: it asks for trust, launches, and says what came of it."""

import gc
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from grpo_recipes.cli.node_commands import print_commands
from grpo_recipes.contract.exits import EXIT_DONE, EXIT_FAILED
from grpo_recipes.contract.host.standard_streams import left_out
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.errors import Refusal
from grpo_recipes.yaml.compose import Source

if TYPE_CHECKING:
    from grpo_recipes.contract.run_record import RunRecord
    from grpo_recipes.launch.progress import View

NAMING_CODE = {("rewards",), ("tools",), ("environment",), ("rollout",), ("preflight",), ("launch", "sandbox")}
"""What of a recipe names files of the user's own code, or says what that does."""
allow_code_option = click.option(
    "--allow-code",
    "allowed",
    metavar="SHA",
    multiple=True,
    help="Allow code of the recipe by its sha256; `here` allows the recipe's own folder, also after an edit.",
)
# The form of an answer after which nothing is launched; None launches.
AnswerAlone = Literal["text", "json"] | None
Prepare = Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Changes:
    """What a command asks for beside a recipe or a plan: --set, --accept, --strict, --accept-drift.

    begins_anew: a run that did not end is begun again in a folder of its own, --out.
    """

    overrides: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    strict: bool = False
    accept_drift: bool = False
    begins_anew: bool = False

    def with_override(self, override: str) -> "Changes":
        """Changes with one --set more, which comes last."""
        return replace(self, overrides=(*self.overrides, override))


@dataclass(frozen=True, slots=True)
class Ready:
    """A plan to launch. recipe_text: of its recipe.yaml. beside: the folder in which its run folder is made.

    is_pinned: it was planned before, so what the hub has by now is not asked for. files: of a recipe, recipe_files.
    goes_on_from: the run folder whose checkpoint it reads, None for one that begins at step 0.
    """

    plan: Plan
    recipe_text: str
    beside: str = "runs"
    is_pinned: bool = False
    files: tuple[str, ...] = ()
    goes_on_from: str | None = None


def names_a_plan(place: str) -> bool:
    """Whether the argument of `run` is a run folder or a plan, and no recipe."""
    return os.path.isdir(place) or place.endswith(".json")


def recipe_files(source: Source) -> tuple[str, ...]:
    """The recipe, and those of its parents that say its rewards and tools and are no shipped ones."""
    said = {
        mark.file for path, mark in source.marks.items() if {path[:1], path[:2]} & NAMING_CODE
    } - source.folders.keys()
    return tuple(file for file in source.files if file == source.file or file in said)


def ask_trust(
    plan: Plan,
    given: tuple[str, ...],
    files: tuple[str, ...] = (),
    *,
    folder: str | None = None,
    plays_turns: bool = False,
) -> None:
    """Says which code is allowed by its folder. Raises Refusal for code that this user has not allowed.

    given: by --allow-code. files: recipe_files of a recipe that was planned now; none for a plan that was made before.
    folder: a run folder whose checkpoint is gone on from. plays_turns: the calls of preflight.turns are made.
    """
    from grpo_recipes.trust.code import code_parts
    from grpo_recipes.trust.consent import consent

    parts = code_parts(plan)
    if folder is not None:
        from grpo_recipes.trust.checkpoints import checkpoint_parts

        parts += checkpoint_parts(folder)
    if plays_turns:
        from grpo_recipes.trust.turns import turn_parts

        parts += turn_parts(plan)
    for line in consent(parts, given, files):
        click.echo(redact(line), err=True)


def refuse_strange_entries(folder: str) -> None:
    """Raises Refusal for a link, a pipe or a device where a run has a file or folder of its own."""
    from grpo_recipes.contract.files.regular_file import NotRegular
    from grpo_recipes.contract.files.run_entries import refuse_foreign_entries, strange_entry

    try:
        refuse_foreign_entries(Path(folder))
    except NotRegular as problem:
        raise Refusal(strange_entry(problem)) from None
    except OSError as problem:
        because = problem.strerror or problem
        raise Refusal.of(f"{folder}: the run folder cannot be read", because=str(because)) from None


def launched(
    plan: Plan,
    folder: str,
    *,
    as_json: bool,
    resume: bool = False,
    follow: bool = False,
    view: "View | None" = None,
    prepare: Prepare = list,
    anew: Callable[[], tuple[Plan, str] | None] = lambda: None,
) -> int:
    """Starts what lies in a run folder through the engine of its plan, says what came of it, returns the exit code.

    What lies in the folder chooses no engine. follow: nothing is started, its active run is followed. Of a trial
    (--smoke) it is said whether it passed. view: how much is seen while it goes on.
    prepare: called when nobody else may use the folder and nothing was started; returns lines to say.
    anew: called when the run has ended; gives a plan and a run folder to launch in its place, once.
    """
    from grpo_recipes.engines.catalog import engine_of
    from grpo_recipes.launch.asked import never_stopped_by_talk
    from grpo_recipes.launch.progress import NORMAL

    view = view or NORMAL
    gc.enable()
    never_stopped_by_talk()
    engine = engine_of(plan)
    click.echo(redact(f"run folder {folder}"), err=True)
    if follow:
        code = engine.follow(folder, echo=sys.stderr, view=view)
    else:
        code = engine.start(plan, folder, resume=resume, echo=sys.stderr, view=view, prepare=prepare)
        if commands := engine.commands(plan, folder, resume=resume):
            print_commands(plan, folder, commands, as_json=as_json)
            return code
    if code == EXIT_FAILED and (other := anew()) is not None:
        return launched(*other, as_json=as_json, view=view)
    return conclude(plan, folder, code, as_json=as_json)


def conclude(plan: Plan, folder: str, code: int, *, as_json: bool) -> int:
    """Says on stdout how a run ended, and returns its exit code."""
    from grpo_recipes.contract.files.folder_files import read_text
    from grpo_recipes.contract.integrity.used_run import changed_files
    from grpo_recipes.contract.run_record import read_record
    from grpo_recipes.launch.summary import summary

    record, changed = read_record(folder), [str(fault) for fault in changed_files(Path(folder))]
    if record is not None:
        text = read_text(Path(folder), "run.json") if as_json else summary(record, folder)
        if as_json and changed:
            text = json.dumps({**json.loads(text), "changed": changed}, indent=2, ensure_ascii=False) + "\n"
        click.echo(redact(text), nl=False)
    for line in changed:
        click.echo(redact(line), err=True)
    if plan.smoke:
        click.echo(redact(_verdict(code, record)), err=as_json)
    if (problem := left_out("stdout")) is not None:  # the exit is that of the run
        click.echo(redact(f"how it ended could not be printed, run.json has it: {problem.strerror}"), err=True)
    return code


def _verdict(code: int, record: "RunRecord | None") -> str:
    from grpo_recipes.launch.summary import peak_text

    if code != EXIT_DONE or record is None:
        return "smoke failed"
    is_open = record.proofs is None or any(isinstance(one, dict) and one.get("ok") is None for one in record.proofs)
    words = ["smoke passed", "but not everything could be seen" if is_open else "", peak_text(record)]
    return ", ".join(filter(None, words))
