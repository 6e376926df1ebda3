"""Local data exists, can be read, and has the columns that templates and rewards read.

The rule reads the first 64 rows of a .jsonl file and the header of a .csv; preflight and the run check other files, a
.jsonl that is one array of rows, and hub data sets. Without the rule, a missing column shows up after loading the
model, as a KeyError or an undefined template variable, and a single line that is not JSON ends the run with a
DatasetGenerationError that does not name the line. A web address is not a path: datasets looks for a folder https:/.
"""

import os
import re
from collections.abc import Iterator

from grpo_recipes.contract.files.regular_file import open_regular
from grpo_recipes.contract.findings.finding import Finding, Mark, Patch, Path, path_text
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.contract.prompt_shape import template_of
from grpo_recipes.contract.tasks import COLUMNS
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import EPISODE, are_episodes, first_row_of, held_out_sets, makes_rows
from grpo_recipes.user_files.local_files import columns_of, data_format, local_path, name_list, near_path, path_slip
from grpo_recipes.user_files.local_rows import first_rows
from grpo_recipes.user_files.template import TemplateProblem, template_variables

ID = "DAT001"
NO_DATA = ("/", "/proc", "/sys", "/dev", "/etc", "/usr", "/var", "/home", "/root", "/tmp")
NOT_THERE = "the file or folder does not exist"
_OF_A_DATA_SET = r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/datasets/([\w.-]+/[\w.-]+)"
KERNEL = ("/proc/", "/sys/", "/dev/")
# Keys that nothing reads for a file; a folder can have configurations.
_OF_THE_HUB = ("name", "revision")
# Column names that say that they hold the prompt.
_QUESTIONS = ("instruction", "problem", "query", "question")


def check(context: Context) -> Iterator[Finding]:
    if makes_rows(context):
        yield from _columns(context, "the data", COLUMNS)
    elif are_episodes(context):
        yield from _columns(context, "an episode", (EPISODE,))
    elif context.value("dataset.path") is not None:
        yield from _section(context, "dataset")
    for _, of_set in held_out_sets(context):
        if of_set.value("evaluation.path") is not None:
            yield from _section(of_set, "evaluation")
        elif of_set.value("dataset.path") is not None and of_set.value("evaluation.split") not in (None, "train"):
            yield from _split_of_training_file(of_set)


def _section(context: Context, section: str) -> Iterator[Finding]:
    key = f"{section}.path"
    value = context.text(key)
    if "://" in value:
        yield _address(context, key, value)
        return
    path = local_path(value, context.source.directory(context.path(key)))
    columns: tuple[str, ...] | None = None
    if path is not None:
        problem = _unreadable(path)
        if problem:
            near = near_path(value, path) if not os.path.exists(path) else None
            fix = f"path: {near}, if you meant that" if near else _what_to_do(problem, value)
            named = context.recipe_key(key)
            yield context.finding(f"{named} {value}: {problem}", key, f"looked for {path}", fix=fix)
            return
        if os.path.isfile(path):
            try:
                columns = columns_of(path)
            except (ValueError, OSError) as error:
                because = ["datasets cannot load the file, and the first row defines the columns"]
                fix = "one JSON object per line, the first with all columns"
                yield context.finding(f"{context.recipe_key(key)} {value}: {error}", key, because, fix=fix)
                return
            yield from _find_broken_row(context, path, key)
        if data_format(path):
            yield from _split(context, section)
        for unread in _OF_THE_HUB[data_format(path) is None :]:
            of_hub = f"{section}.{unread}"
            if of_hub in context.settings and context.is_given(of_hub) and context.value(of_hub) is not None:
                message = f"{unread} {context.value(of_hub)} has no effect on local data"
                yield context.wrong(message, of_hub, "it selects from a data set of the hub", severity="warning")
    yield from _columns(context, value, columns, section)


def _address(context: Context, key: str, value: str) -> Finding:
    page = re.match(_OF_A_DATA_SET, value)
    fix = f"path: {page[1]}, its hub id" if page else "download the file, and write its path"
    because = "a path is a file, a folder or the hub id of a data set"
    return context.finding(f"{context.recipe_key(key)} {value} is a web address", key, because, fix=fix)


def _find_broken_row(context: Context, path: str, key: str) -> Iterator[Finding]:
    for line, row in first_rows(path):
        if isinstance(row, str):
            message = f"{context.recipe_key(key)} {context.text(key)}: line {line}: {row}"
            because = "datasets refuses the whole file, and its DatasetGenerationError does not name the line"
            yield context.finding(message, key, because, fix=f"fix line {line} of {path}")


def _unreadable(path: str) -> str | None:
    if not os.path.exists(path):
        return path_slip(path) or NOT_THERE
    if not os.path.isfile(path) and not os.path.isdir(path):
        return "it is a device, a pipe or a socket, and reading it may never end"
    if os.path.isfile(path) and data_format(path) is None:
        return "its suffix is not .jsonl, .json, .csv or .parquet"
    real = os.path.realpath(path)
    if real in (*NO_DATA, os.path.expanduser("~")) or real.startswith(KERNEL):
        return "it is a system folder, not data"
    if os.path.isdir(path):
        return "it is a folder with the suffix of a data file" if data_format(path) else None
    try:
        open_regular(path).close()
    except OSError as error:
        return error.strerror or "it cannot be read"
    return None


def _what_to_do(problem: str, value: str) -> str:
    if "suffix" in problem:
        return "write the rows as .jsonl, one JSON object per line"
    if any(mark in value for mark in "*?["):
        return "write a file, or the folder of the files: no pattern is expanded"
    return "a path relative to the recipe" if problem != NOT_THERE else "put the file there, or correct the path"


def _split(context: Context, section: str) -> Iterator[Finding]:
    split = context.value(f"{section}.split")
    if split not in (None, "train"):
        message = f"a single file has no split {split}"
        because = "all its rows are in the split train"
        yield context.wrong(message, f"{section}.split", because, "train")


def _split_of_training_file(context: Context) -> Iterator[Finding]:
    """The finding for an evaluation without a path, which takes a different split of the training data."""
    path = local_path(context.text("dataset.path"), context.source.directory(("dataset", "path")))
    if path is not None and data_format(path) and os.path.isfile(path):
        message = f"a single file has no split {context.value('evaluation.split')}"
        because = f"evaluation takes its rows from dataset.path {context.value('dataset.path')}"
        yield context.finding(message, "evaluation.split", because, fix="path: a second file, without split")


def _columns(
    context: Context, file: str, columns: tuple[str, ...] | None, section: str = "dataset"
) -> Iterator[Finding]:
    prompt = context.value("dataset.prompt")
    if prompt is None:
        if columns is not None and "prompt" not in columns and not makes_rows(context):
            likely = _prompts(context, columns)
            written = likely[0] if len(likely) == 1 else "{{ ... }}"
            yield context.finding(
                f"{file} has no column prompt, and dataset.prompt is not set",
                f"{section}.path" if context.path(f"{section}.path")[1:2] == ("sets",) else "dataset.path",
                f"its columns are {name_list(columns)}",
                fix=f'prompt: "{written}"' + ("" if likely else ", with the column that holds the question"),
                patch=[Patch(_prompt_of(context, section), written)] if len(likely) == 1 else [],
            )
    else:
        yield from _template(
            context, str(prompt), "dataset.prompt", context.mark("dataset.prompt"), file, columns, section
        )
    for name, template in context.mapping("dataset.columns").items():
        mark = context.source.mark((*context.path("dataset.columns"), name))
        yield from _template(context, str(template), "dataset.columns", mark, file, columns, section)
    if section == "dataset" and context.has_section("warm_start"):
        answer, mark = context.text("warm_start.answer"), context.mark("warm_start.answer")
        yield from _template(context, answer, "warm_start.answer", mark, file, columns)
    condition = context.value("dataset.filter") if section == "dataset" else None
    if condition is not None:
        own = None if columns is None else (*columns, *context.mapping("dataset.columns"), "prompt", "prompt_tokens")
        yield from _template(context, str(condition), "dataset.filter", context.mark("dataset.filter"), file, own)


def _prompt_of(context: Context, section: str) -> Path:
    """Where the prompt of the rows of a section is written: of one set among several in that."""
    path = context.path(f"{section}.path")
    return (*path[:-1], "prompt") if path[1:2] == ("sets",) else ("dataset", "prompt")


def _prompts(context: Context, columns: tuple[str, ...]) -> list[str]:
    """Templates of the columns that hold a prompt by name, or as ShareGPT messages."""
    named = [f"{{{{ {column} }}}}" for column in columns if column in _QUESTIONS]
    row = first_row_of(context) or {}
    return named or [made for column, value in row.items() if (made := template_of(column, value))]


def _template(
    context: Context,
    text: str,
    key: str,
    mark: Mark | None,
    file: str,
    columns: tuple[str, ...] | None,
    section: str = "dataset",
) -> Iterator[Finding]:
    try:
        needed = template_variables(text)
    except TemplateProblem as problem:
        because = ["jinja2 raises TemplateSyntaxError before the model is loaded"]
        fix = 'two braces on each side for a variable, "{{ question }}", and single ones for text, "{}"'
        if "No filter named" in str(problem):
            fix = "a filter of jinja2, such as trim, replace('a', 'b') or tojson"
        yield context.finding(f"the template cannot be read: {problem}", key, because, fix=fix, mark=mark)
        return
    missing = sorted(needed.difference(columns)) if columns is not None else []
    if missing:
        message = f"{file} has no column {name_list(missing)}"
        why = [f"its columns are {name_list(columns or ())}"]
        is_one = len(missing) == 1 and key != "dataset.columns"  # of which there may be thousands
        near = nearest_words(missing[0], (columns or ())[:1000], cutoff=0.7) if is_one else []
        fix = f"use {near[0]}, if you meant that" if near else f"use one of {name_list(columns or ())}"
        if len(columns or ()) == 1 and (other := next((sep for sep in ";\t|" if sep in (columns or ("",))[0]), None)):
            fix = f"separate the columns with commas instead of {other!r}"
        rows = context.path("evaluation.path")
        if section == "evaluation" and rows[1:2] == ("sets",) and context.path(key)[:1] == ("dataset",):
            own = key.removeprefix("dataset.")
            fix, key, mark = f"{own} in {path_text(rows[:-1])}, with templates for its columns", "evaluation.path", None
            why = [f"dataset.{own} reads it", *why]
        yield context.finding(message, key, why, fix=fix, mark=mark)
