"""`grpo-run init`: writes a small or shipped recipe, or converts another program's configuration."""

import json
import os
import shutil
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from grpo_recipes.cli.completion import files, shipped_names
from grpo_recipes.cli.new_files import SCHEMA, overwrite_refusal, unwritable, write_new, write_one
from grpo_recipes.contract.exits import EXIT_DONE, EXIT_NOT_STARTED, Refusal
from grpo_recipes.contract.findings.wording import align_rows, value_text
from grpo_recipes.contract.secrets.redact import redact, redact_value
from grpo_recipes.takeover.basis.draft import Row
from grpo_recipes.takeover.shipped import Shipped, shipped_recipe, shipped_recipes, whole_text
from grpo_recipes.takeover.smollm2_recipe import FACTS, NAME, RECIPE, STARTER, files_beside
from grpo_recipes.takeover.takeover import PROGRAMS, Takeover, take_over

STDOUT = "-"
SCHEMA_LINE = f"# yaml-language-server: $schema={SCHEMA}\n"
ORDER = ("refused", "emulated", "mapped")
LISTED = ("name", "task", "size", "method", "hardware", "state")


@click.command()
@click.argument("name", required=False, shell_complete=shipped_names)
@click.option("--list", "as_list", is_flag=True, help="List the shipped recipes.")
@click.option(
    "--from", "config", metavar="CONFIG", shell_complete=files, help="Convert a TRL, open-r1 or axolotl YAML file."
)
@click.option("--accelerate", metavar="FILE", shell_complete=files, help="The accelerate file that launches CONFIG.")
@click.option("--deepspeed", metavar="FILE", shell_complete=files, help="The DeepSpeed file that CONFIG uses.")
@click.option(
    "--num-processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of processes, if different from the accelerate file.",
)
@click.option(
    "--written-for",
    metavar="STACK",
    help="The release whose defaults CONFIG relies on, e.g. trl==0.15.2. Default: the newest that has its keys.",
)
@click.option(
    "--data",
    metavar="FILE",
    shell_complete=files,
    help="Propose a recipe for a .csv, .jsonl or .parquet file.",
)
@click.option("--question", metavar="COLUMN", help="The column of FILE that is the prompt. Default: guessed.")
@click.option("--answer", metavar="COLUMN", help="The column of FILE with the right answer. Default: guessed.")
@click.option("--model", metavar="MODEL", help="Hub id or folder of the model for --data.")
@click.option(
    "-o", "--output", metavar="FILE", shell_complete=files, help="Output file; - is stdout. Never overwrites a file."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the recipes of --list, or how each key was converted, as JSON."
)
def init(
    name: str | None,
    as_list: bool,
    config: str | None,
    accelerate: str | None,
    deepspeed: str | None,
    num_processes: int | None,
    written_for: str | None,
    data: str | None,
    question: str | None,
    answer: str | None,
    model: str | None,
    output: str | None,
    as_json: bool,
) -> int:
    """Write a recipe: a small one to start with, the shipped recipe NAME, a configuration converted with --from, or one
    proposed for the rows of a file with --data.

    \b
    grpo-run init -o recipe.yaml
    grpo-run init --data questions.csv
    grpo-run init --from grpo_config.yaml --num-processes 8
    """
    beside = [option for option, value in (("--accelerate", accelerate), ("--deepspeed", deepspeed)) if value]
    beside += ["--num-processes"] if num_processes else []
    beside += ["--written-for"] if written_for else []
    of_data = [
        (key, value) for key, value in (("--question", question), ("--answer", answer), ("--model", model)) if value
    ]
    if sum([name is not None, as_list, config is not None, data is not None]) > 1:
        raise Refusal.of("NAME, --list, --from and --data cannot be combined", fix="a NAME, or one of these options")
    if beside and config is None:
        raise Refusal.of(f"{beside[0]} needs --from", fix=f"--from CONFIG.yaml {beside[0]} ...")
    if of_data and data is None:
        option, value = of_data[0]
        raise Refusal.of(f"{option} needs --data", fix=f"--data FILE {option} {value}")
    if data is not None:
        return _write_proposed(data, output or f"{Path(data).stem}.yaml", question, answer, model, as_json)
    if as_list:
        return _list(as_json)
    if config is not None:
        file = None if output in (None, STDOUT) else output
        taken = take_over(
            config,
            accelerate=accelerate,
            deepspeed=deepspeed,
            processes=num_processes,
            written_for=written_for,
            output=file,
        )
        return _write_converted(taken, file, as_json)
    shipped = None if name is None or name == NAME else shipped_recipe(name)
    text = STARTER if name is None else RECIPE if shipped is None else _text_of(shipped)
    if output == STDOUT:
        click.echo(text, nl=False)
    elif shipped is not None:
        _write_shipped(shipped, text, output)
    elif name == NAME:
        _write_smollm2(output or f"{NAME}.yaml")
    else:
        write_new({output or "recipe.yaml": f"{SCHEMA_LINE}{text}"})
    return EXIT_DONE


def _write_proposed(
    data: str, output: str, question: str | None, answer: str | None, model: str | None, as_json: bool
) -> int:
    """Writes or prints the recipe for a file, and prints what was guessed and what to check."""
    from grpo_recipes.takeover.own_data.recipe import draft, draft_json, draft_text

    if output != STDOUT and os.path.lexists(output):
        raise overwrite_refusal(output)
    recipe = "recipe.yaml" if output == STDOUT else output
    proposed = draft(data, recipe, model=model, question=question, answer=answer)
    if output == STDOUT and proposed.files:
        because = "its file is written next to the recipe"
        raise Refusal.of("this recipe needs a reward to be filled in", because=because, fix="-o FILE")
    if output != STDOUT:
        folder = Path(output).parent
        files = {str(folder / name): text for name, text in proposed.files.items()}
        write_new({**files, output: f"{SCHEMA_LINE}{proposed.text}"})
    elif not as_json:
        click.echo(proposed.text, nl=False)
    if as_json:
        value = draft_json(proposed, None if output == STDOUT else output)
        click.echo(redact(json.dumps(value, indent=2, ensure_ascii=False)))
    else:
        click.echo(redact(draft_text(proposed, data)), err=True)
    return EXIT_DONE


def _list(as_json: bool) -> int:
    recipes = (*shipped_recipes(), FACTS)
    if as_json:
        keys = ("name", "description", *LISTED[1:])
        click.echo(json.dumps([{key: getattr(recipe, key) for key in keys} for recipe in recipes], indent=2))
        return EXIT_DONE
    rows = [LISTED, *(tuple(getattr(recipe, key) for key in LISTED) for recipe in recipes)]
    click.echo("\n".join(align_rows(rows)))
    return EXIT_DONE


def _write_shipped(shipped: Shipped, text: str, output: str | None) -> None:
    """Writes the recipe and the files that it needs next to it."""
    target = Path(output or f"{shipped.name}.yaml")
    for part in shipped.beside:
        _copy(shipped.folder / part, target.parent / (Path(part).name if shipped.is_whole else part))
    write_new({str(target): text})


def _write_smollm2(target: str) -> None:
    """Writes the recipe, its rows and its reward, and builds the model; keeps existing files."""
    if os.path.lexists(target):
        raise overwrite_refusal(target)
    folder = Path(target).parent / NAME
    model = folder / "model"
    if not _is_kept(model):
        from grpo_recipes.takeover.smollm2_model import build  # only this recipe needs these imports

        build(model, announce=lambda text: click.echo(redact(text), err=True))
        click.echo(redact(f"wrote {model}"), err=True)
    for name, text in files_beside().items():
        if not _is_kept(folder / name):
            write_one(str(folder / name), text)
            click.echo(redact(f"wrote {folder / name}"), err=True)
    write_new({target: f"{SCHEMA_LINE}{RECIPE}"})


def _is_kept(path: Path) -> bool:
    """Whether the path exists. If so, reports that it is kept."""
    is_there = os.path.lexists(path)
    if is_there:
        click.echo(redact(f"kept {path}, which already exists"), err=True)
    return is_there


def _text_of(shipped: Shipped) -> str:
    return f"{SCHEMA_LINE}{whole_text(shipped)}" if shipped.is_whole else _with_schema_beside(shipped.file)


def _with_schema_beside(recipe: Path) -> str:
    """The text of a shipped recipe with an editor line that names the schema next to it."""
    return recipe.read_text(encoding="utf-8").replace("../schemas/recipe.schema.json", SCHEMA)


def _copy(source: Path, target: Path) -> None:
    """Copies a file or folder that a recipe needs, atomically; keeps an existing one."""
    if _is_kept(target):
        return
    building = target.with_name(f".init-{os.getpid()}-{target.name}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, building)
        elif source.suffix == ".yaml":
            building.write_text(_with_schema_beside(source), encoding="utf-8")
        else:
            shutil.copy2(source, building)
        os.rename(building, target)
    except OSError as problem:
        raise unwritable(str(target), problem) from problem
    finally:
        if building.is_dir():
            shutil.rmtree(building, ignore_errors=True)
        else:
            building.unlink(missing_ok=True)
    click.echo(redact(f"wrote {target}"), err=True)


def _write_converted(taken: Takeover, file: str | None, as_json: bool) -> int:
    text = redact(taken.text) if file is None else f"{SCHEMA_LINE}{redact(taken.text)}"
    if file is not None:
        folder = Path(file).parent
        write_new({**{str(folder / name): redact(content) for name, content in taken.files.items()}, file: text})
    elif not as_json:
        click.echo(text, nl=False)
    if as_json:
        value = takeover_json(taken, file, text)
        click.echo(redact(json.dumps(redact_value(value), indent=2, ensure_ascii=False, default=str)))
    else:
        click.echo(redact(takeover_text(taken, file)), err=True)
    return EXIT_DONE if taken.is_complete else EXIT_NOT_STARTED


def takeover_text(taken: Takeover, file: str | None) -> str:
    """The table, worst first, and notes about the release."""
    lines = [f"a configuration for {PROGRAMS[taken.dialect]}, read as {taken.release.name} ({taken.release.how})"]
    if taken.moved:
        lines.append("other releases with these keys have different defaults, see --written-for:")
        lines.extend(f"  {name}: {text}" for name, text in taken.moved.items())
    rows = sorted(taken.rows, key=lambda row: ORDER.index(row.fate))
    lines += align_rows((*_cells(row), row.because) for row in rows)
    counts: Counter[str] = Counter(row.fate for row in taken.rows)
    lines.append(", ".join(f"{counts[fate]} {fate}" for fate in ORDER))
    if taken.stubs:
        sources = [name for name in taken.files if name.endswith(".py")]
        lines.append(f"fill in before a run: {', '.join(taken.stubs)} in {' and '.join(sources)}")
    if not taken.is_complete:
        where = file or "the recipe"
        lines.append(f"{where} is a different experiment until you replace each refused key; its comments show where")
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, str, str]:
    return row.fate, f"{row.key}: {value_text(row.value, 40)}", ", ".join(row.where) or "-"


def takeover_json(taken: Takeover, file: str | None, text: str) -> dict[str, Any]:
    """A conversion as JSON values. file: where the recipe was written, None if it was printed; text: the recipe."""
    return {
        "program": PROGRAMS[taken.dialect],
        "written_for": {"trl": taken.release.trl, "transformers": taken.release.transformers, "how": taken.release.how},
        "defaults_that_moved": dict(taken.moved),
        "complete": taken.is_complete,
        "to_fill_in": list(taken.stubs),
        "file": file,
        "recipe": text,
        "keys": [asdict(row) for row in taken.rows],
    }
