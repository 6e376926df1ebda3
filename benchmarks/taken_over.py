"""Takes over public configurations: `python benchmarks/taken_over.py FOLDER [--write benchmarks/taken_over.md]`.

FOLDER holds files as OWNER+NAME/PATH of their repositories, and sources.json, which says of each repository what its
files are launched with:
    {"owner/name": {"written_for": "trl==0.18.0", "accelerate": {"part of a path": "PATH"}, "leave_out": ["part"]}}
Every .yaml and .yml in it is taken over that is not left out and not named as an accelerate file. A recipe is then
validated on the release that it was written for, with as many GPUs as it asks for, and on the newest.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grpo_recipes.errors import Refusal
from grpo_recipes.facts.shipped import releases_with_facts
from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.stack.gpus import named_gpu
from grpo_recipes.stack.target import parse_target
from grpo_recipes.takeover.takeover import PROGRAMS, Takeover, take_over
from grpo_recipes.takeover.write import one_line

COLUMNS = ("repository", "path", "program", "trl", "mapped", "emulated", "refused")
COLUMNS += ("refused keys", "exit", "validates", "newest")
FATES = ("mapped", "emulated", "refused")
GPU = named_gpu("H100-80GB")
HEAD = """\
# Configurations of others, taken over

Written by `python benchmarks/taken_over.py FOLDER --write benchmarks/taken_over.md` from files of public repositories,
which are not part of this one: `grpo-run init --from` of each, with the accelerate file and the release that its
repository names.

- mapped: a recipe says it, or grpo-run does it anyway. emulated: a recipe says it in another way, told in the table and
  in a comment. refused: nothing in a recipe says it, told with the reason; exit 2.
- validates, newest: the rules that refuse the recipe as it was written, on the release that it was written for and on
  the newest, with 8 GPUs. RWD001 asks for the author's file of rewards, DAT001 and MDL001 for his other files; BAT002
  and BAT003 are batches that TRL itself refuses on the processes of the accelerate file; LOS001 is a loss that depends
  on the micro-batch; STK015 is a defect of the release; SCH003 a value that no recipe has.
"""


@dataclass(frozen=True, slots=True)
class Tried:
    """One configuration. errors: rules that refuse its recipe, on its own release and on the newest."""

    repository: str
    path: str
    taken: Takeover
    errors: tuple[list[str], list[str]]


def configurations(folder: Path) -> Iterator[tuple[str, str, Path, Mapping[str, Any]]]:
    """Repository, path in it, file, and what the sources say of its repository."""
    sources = json.loads((folder / "sources.json").read_text(encoding="utf-8"))
    for repository, source in sorted(sources.items()):
        root = folder / repository.replace("/", "+")
        left_out = [*source.get("leave_out", ()), *source.get("accelerate", {}).values()]
        for file in sorted([*root.rglob("*.yaml"), *root.rglob("*.yml")]):
            path = file.relative_to(root).as_posix()
            if not any(part in path for part in left_out):
                yield repository, path, file, source


def tried(folder: Path, work: Path) -> Iterator[Tried]:
    """Every configuration, taken over and validated."""
    for number, (repository, path, file, source) in enumerate(configurations(folder)):
        root = folder / repository.replace("/", "+")
        beside = next((str(root / one) for part, one in source.get("accelerate", {}).items() if part in path), None)
        recipe = work / f"{number}.yaml"
        try:
            taken = take_over(str(file), accelerate=beside, written_for=source.get("written_for"), output=str(recipe))
        except Refusal as refusal:
            print(f"{repository} {path}: {refusal.text}", file=sys.stderr)
            continue
        recipe.write_text(taken.text, encoding="utf-8")
        for name, text in taken.files.items():
            (work / name).write_text(text, encoding="utf-8")
        yield Tried(repository, path, taken, (errors(recipe, taken, own=True), errors(recipe, taken, own=False)))


def errors(recipe: Path, taken: Takeover, *, own: bool) -> list[str]:
    """The rules that refuse a recipe on its own release, or on the newest."""
    newest = {package: releases_with_facts(package)[-1] for package in ("trl", "transformers", "peft")}
    versions = {**newest, "trl": taken.release.trl, "transformers": taken.release.transformers} if own else newest
    stack, _ = parse_target(",".join(f"{package}=={version}" for package, version in versions.items()))
    assert stack is not None
    found = resolve(str(recipe), replace(stack, gpus=(GPU,) * 8)).findings
    return sorted({finding.rule for finding in found if finding.severity == "error"})


def row(one: Tried) -> str:
    """One line of the table."""
    counts: Counter[str] = Counter(row.fate for row in one.taken.rows)
    refused = sorted({line.key for line in one.taken.rows if line.fate == "refused"})
    cells = [
        one.repository,
        one.path,
        PROGRAMS[one.taken.dialect],
        one.taken.release.trl,
        *(str(counts[fate]) for fate in FATES),
        ", ".join(refused) or "-",
        "0" if one.taken.is_complete else "2",
        *(", ".join(found) or "yes" for found in one.errors),
    ]
    return f"| {' | '.join(cells)} |"


def reasons(all_tried: list[Tried], fate: str) -> list[str]:
    """Every key of a fate with its reasons, the most frequent first."""
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    for number, one in enumerate(all_tried):
        for line in one.taken.rows:
            if line.fate == fate:
                key = line.key.partition(" (")[0]
                found[key, one_line(line.because)].add(number)
    rows = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return [f"| {key} | {because} | {len(numbers)} |" for (key, because), numbers in rows]


def all_but_loss(all_tried: list[Tried]) -> int:
    """How many have one refused key, which is the loss of trl 0.16 to 0.21."""
    refused = [{line.where for line in one.taken.rows if line.fate == "refused"} for one in all_tried]
    return sum(where == {("grpo.loss_type",)} for where in refused)


def page(all_tried: list[Tried]) -> str:
    """The text of the page."""
    newest = releases_with_facts("trl")[-1]
    complete = sum(one.taken.is_complete for one in all_tried)
    valid = [sum(not one.errors[place] for one in all_tried) for place in (0, 1)]
    counts: Counter[str] = Counter(line.fate for one in all_tried for line in one.taken.rows)
    total = sum(counts.values())
    lines = [
        HEAD,
        f"{len(all_tried)} configurations of {len({one.repository for one in all_tried})} repositories, {total} keys:"
        f" {counts['mapped']} mapped, {counts['emulated']} emulated, {counts['refused']} refused.",
        f"Taken over in full (exit 0): {complete}; all but the loss, which depends on the micro-batch:"
        f" {all_but_loss(all_tried)}. {valid[0]} of the recipes validate as they are on their own"
        f" release, {valid[1]} on trl {newest}.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
        *(row(one) for one in all_tried),
    ]
    for fate in ("refused", "emulated"):
        lines += [
            "",
            f"## {fate}",
            "",
            "| key | because | configurations |",
            "|---|---|---|",
            *reasons(all_tried, fate),
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Prints the page, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", type=Path, metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        text = page(list(tried(options.folder, Path(work))))
    if options.write is None:
        print(text, end="")
    else:
        options.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
