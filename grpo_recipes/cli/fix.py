"""`grpo-run validate --fix`: shows the fixes of findings as a diff, or writes them into the recipe."""

import codecs
import difflib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import click

from grpo_recipes.compare.differences import differences
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files.folder_files import write_whole
from grpo_recipes.contract.findings.finding import Finding, by_place
from grpo_recipes.contract.findings.findings_text import count_text, findings_text
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.explain.pages import known_ids
from grpo_recipes.resolve.fixes.fixes import Again, Fixes, fixes
from grpo_recipes.resolve.resolve import Resolution, plan_of
from grpo_recipes.yaml.files import read_recipe

SUGGESTED = "suggested"


def parse_rules(text: str | None) -> tuple[str, ...] | None:
    """The rules in --fix=BAT001,SCH003; None for all, --fix=suggested.

    Raises Refusal for anything else.
    """
    if text == SUGGESTED:
        return None
    rules = tuple(word.strip().upper() for word in (text or "").split(",") if word.strip())
    for rule in rules:
        if rule not in known_ids():
            raise Refusal.of(
                f"--fix={text}: rule {rule} does not exist",
                fix=f"--fix for the safe fixes, --fix={SUGGESTED} for all, --fix=BAT001 for one rule's",
            )
    return rules


def fix_recipe(resolution: Resolution, again: Again, rules: tuple[str, ...] | None, *, write: bool) -> Fixes:
    """Prints the diff that fixes a recipe, and the findings that it cannot fix; writes it if requested.

    again: resolves the recipe with a different text. rules: also apply the suggestions of these, None for all.
    """
    text = read_recipe(resolution.file)
    if not isinstance(text, str):
        return Fixes("", resolution, (), (), resolution.findings)
    made = fixes(resolution, text, again, asked=lambda finding: rules is None or finding.rule in rules)
    diff = difflib.unified_diff(
        text.splitlines(keepends=True),
        made.text.splitlines(keepends=True),
        resolution.file,
        f"{resolution.file} (fixed)",
    )
    click.echo(redact("".join(diff)), nl=False)
    _tell(made, resolution)
    if write and made.fixed:
        _replace(resolution.file, text, made.text)
    click.echo(redact(f"{resolution.file}: {_counts(made, is_written=write)}"), err=True)
    return made


def _tell(made: Fixes, before: Resolution) -> None:
    """Prints on stderr the remaining findings, and how the fixes change the experiment."""
    rest = by_place([*made.suggested, *made.left])
    if rest:
        click.echo(redact(findings_text(rest, before.file) + "\n"), err=True)
    for line in _changes(made, before):
        click.echo(redact(line), err=True)


def _changes(made: Fixes, before: Resolution) -> list[str]:
    """The parts of the experiment that the fixes change, if it could be trained both before and after."""
    if not made.fixed or before.refused or made.after.refused or before.context is None or made.after.context is None:
        return []
    changes = differences(plan_of(before), plan_of(made.after)).experiment
    return [f"the experiment changes: {change.key} {change.a} -> {change.b}" for change in changes]


def _counts(made: Fixes, *, is_written: bool) -> str:
    done = "fixed" if is_written else "can be fixed: --fix shows the change, --fix --write writes it"
    parts = [f"{len(made.fixed)} {done}"]
    if made.suggested:
        rules = ",".join(_rules(made.suggested))
        parts.append(f"{len(made.suggested)} suggested; --fix={SUGGESTED} or --fix={rules} applies them")
    parts.append(f"{len(made.left)} left")
    return "; ".join(parts) + (f"; now {count_text(made.after.findings)}" if made.fixed else "")


def _rules(findings: Sequence[Finding]) -> list[str]:
    return list(dict.fromkeys(finding.rule for finding in findings))


def _replace(path: str, before: str, after: str) -> None:
    """Writes the file atomically. Raises Refusal if that fails, or if another program has changed it since."""
    target = Path(os.path.realpath(path))

    def refuse_changed() -> None:
        if read_recipe(path) != before:
            raise Refusal.of(f"{path} changed during the check", fix="check it again")

    try:
        mode = stat.S_IMODE(target.stat().st_mode)
        write_whole(target.parent, target.name, _byte_order_mark(target) + after, mode, check=refuse_changed)
        target.chmod(mode)  # including bits that the umask removes from a new file
    except OSError as problem:
        raise Refusal.of(
            f"{path} cannot be written, and is unchanged",
            because=str(problem.strerror or problem),
            fix="free some space, and give this user write permission",
        ) from problem


def _byte_order_mark(path: Path) -> str:
    """The byte order mark that some Windows editors write, if the file has it."""
    with open(path, "rb") as file:
        return "\ufeff" if file.read(3) == codecs.BOM_UTF8 else ""
