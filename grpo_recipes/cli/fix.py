"""`grpo-run validate --fix`: the fixes of findings as a diff, or written into the recipe."""

import difflib
import os
import stat
import tempfile

import click

from grpo_recipes.errors import Refusal
from grpo_recipes.report.findings_text import findings_text
from grpo_recipes.resolve.fixes import Fixes, fixes
from grpo_recipes.resolve.resolve import Resolution
from grpo_recipes.trust.redact import redact
from grpo_recipes.yaml.files import read_recipe


def fixed(resolution: Resolution, *, write: bool) -> Fixes:
    """Prints the diff that mends a recipe, and what no diff can mend; writes it where that is asked for."""
    text = read_recipe(resolution.file)
    if not isinstance(text, str):
        return Fixes("", (), resolution.findings)
    made = fixes(resolution, text)
    diff = difflib.unified_diff(
        text.splitlines(keepends=True),
        made.text.splitlines(keepends=True),
        resolution.file,
        f"{resolution.file} (fixed)",
    )
    click.echo(redact("".join(diff)), nl=False)
    if made.left:
        click.echo(redact(findings_text(made.left, resolution.file) + "\n"), err=True)
    if write and made.fixed:
        _replace(resolution.file, text, made.text)
    done = "fixed" if write else "can be fixed, --write does it"
    click.echo(redact(f"{resolution.file}: {len(made.fixed)} {done}; {len(made.left)} left"), err=True)
    return made


def _replace(path: str, before: str, after: str) -> None:
    """Writes the file at once or not at all. Raises Refusal when it cannot, or somebody else wrote it."""
    place = os.path.realpath(path)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="", dir=os.path.dirname(place), prefix=".grpo-run-", delete=False
        ) as file:
            temporary = file.name
            file.write(after)
        os.chmod(temporary, stat.S_IMODE(os.stat(place).st_mode))
        if read_recipe(path) != before:
            raise Refusal(f"{path} changed while it was being checked\n  = fix: check it again")
        os.replace(temporary, place)
    except OSError as problem:
        raise Refusal(
            f"{path} cannot be written, and is as it was\n  = because: {problem.strerror or problem}\n"
            f"  = fix: make room and let this user write there"
        ) from problem
    finally:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
