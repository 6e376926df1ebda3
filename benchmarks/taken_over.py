"""Takes over public configurations: `python benchmarks/taken_over.py FOLDER [--write benchmarks/taken_over.md]`.

FOLDER holds files as OWNER+NAME/PATH of their repositories, each with the sha256 that taken_over_sources.json beside
this file has of it. That one says of each repository, too, what its files are launched with, as its README, its launch
lines or a key of the file itself say; the first part that a path contains counts:
    {"owner/name": {"written_for": "trl==0.18.0", "accelerate": {"part of a path": "PATH"}, "leave_out": ["part"],
                    "processes": {"part of a path": 7}, "sha256": {"PATH": "..."}}}
Every .yaml and .yml in it is taken over that is not left out and not named as an accelerate file. A recipe is then
validated on the release that it was written for, with as many GPUs as it asks for, and on the newest.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.facts.released.shipped import releases_with_facts
from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.stack.gpus import gpu_by_name
from grpo_recipes.stack.target import parse_target
from grpo_recipes.takeover.basis.write import one_line
from grpo_recipes.takeover.takeover import PROGRAMS, Takeover, take_over

SOURCES = Path(__file__).with_name("taken_over_sources.json")
COLUMNS = ("repository", "path", "program", "trl", "mapped", "emulated", "refused")
COLUMNS += ("refused keys", "to fill in", "exit", "validates", "newest")
FATES = ("mapped", "emulated", "refused")
GPU = gpu_by_name("H100-80GB")
GPUS = 8
# Without stubs, training.cut, the GPUs of a server beside the processes, and cut prompts for old vLLM.
BEFORE = (1, 1)
# Rules that refuse a batch which TRL itself refuses, or a group of one: what their authors cannot have run so.
NEVER_RAN = {"BAT002", "BAT003", "SCH003"}
# Rules that ask for other files of the author than his rewards.
OF_THE_AUTHOR = {"DAT001", "MDL001"}
HARD = {
    "BAT001": "the batch is no whole number of prompts",
    "BAT002": "GRPOConfig raises ValueError: the completions of these processes are no whole groups",
    "BAT003": "GRPOTrainer raises ValueError: the micro-batches of these processes cut groups apart",
    "DAT001": "the rows are in a file of the author's machine",
    "FCT004": "the release does something else than the word means on others: a key that is refused below",
    "LRA010": "trl 1.16 raises ValueError for an adapter on lm_head",
    "MDL001": "the model is in a folder of the author's machine",
    "SCH003": "a group of one has no advantage",
    "STK013": "this release of TRL cannot be imported beside the newest transformers",
}
HEAD = """\
# Importing public configurations

Written by `python benchmarks/taken_over.py FOLDER --write benchmarks/taken_over.md` from files of public repositories,
which are not part of this one. `grpo-run init --from` converts each file, with the accelerate file, the release and
the number of processes that its repository names.

- mapped: a recipe has this key, or grpo-run always does this. emulated: a recipe expresses it in a different way, which
  the table and a comment explain. refused: a recipe cannot express it; the message has the reason, exit code 2.
- to fill in: the author's own rewards, which are stubs in a file next to the recipe until somebody fills them in.
- validates, newest: the rules that refuse the converted recipe on the release that it was written for, and on the
  newest, with as many GPUs as it needs. The section below lists what they refuse.
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
    sources = json.loads(SOURCES.read_text(encoding="utf-8"))
    for repository, source in sorted(sources.items()):
        root = folder / repository.replace("/", "+")
        left_out = [*source.get("leave_out", ()), *source.get("accelerate", {}).values()]
        for path, sha256 in source["sha256"].items():
            if hashlib.sha256((root / path).read_bytes()).hexdigest() != sha256:
                raise SystemExit(f"{root / path} is not the file that the table is of")
        for file in sorted([*root.rglob("*.yaml"), *root.rglob("*.yml")]):
            path = file.relative_to(root).as_posix()
            if not any(part in path for part in left_out):
                yield repository, path, file, source


def tried(folder: Path, work: Path) -> Iterator[Tried]:
    """Every configuration, taken over and validated."""
    for number, (repository, path, file, source) in enumerate(configurations(folder)):
        root = folder / repository.replace("/", "+")
        beside = next((str(root / one) for part, one in source.get("accelerate", {}).items() if part in path), None)
        processes = next((one for part, one in source.get("processes", {}).items() if part in path), None)
        recipe = work / str(number) / "recipe.yaml"
        recipe.parent.mkdir()
        try:
            taken = take_over(
                str(file),
                accelerate=beside,
                processes=processes,
                written_for=source.get("written_for"),
                output=str(recipe),
            )
        except Refusal as refusal:
            print(f"{repository} {path}: {refusal}", file=sys.stderr)
            continue
        recipe.write_text(taken.text, encoding="utf-8")
        for name, text in taken.files.items():
            (recipe.parent / name).write_text(text, encoding="utf-8")
        yield Tried(repository, path, taken, (errors(recipe, taken, own=True), errors(recipe, taken, own=False)))


def errors(recipe: Path, taken: Takeover, *, own: bool) -> list[str]:
    """The rules that refuse a recipe on its own release, or on the newest."""
    newest = {package: releases_with_facts(package)[-1] for package in ("trl", "transformers", "peft")}
    versions = {**newest, "trl": taken.release.trl, "transformers": taken.release.transformers} if own else newest
    stack, _ = parse_target(",".join(f"{package}=={version}" for package, version in versions.items()))
    assert stack is not None
    found = resolve(str(recipe), stack._replace(gpus=(GPU,) * gpus(taken))).findings
    return sorted({finding.rule for finding in found if finding.severity == "error"})


def gpus(taken: Takeover) -> int:
    """As many as the recipe asks for, and one more: TRL before 0.16 has vLLM on a GPU beside those of the processes."""
    asked = next((row.value for row in taken.rows if row.where == ("launch.gpus_per_node",)), None)
    return max(GPUS, asked + 1) if isinstance(asked, int) else GPUS


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
        ", ".join(one.taken.stubs) or "-",
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


def could_run(one: Tried) -> bool:
    """Whether TRL itself takes the batch on the processes that the repository names."""
    return not NEVER_RAN & set(one.errors[0])


def rules(all_tried: list[Tried]) -> list[str]:
    """Every rule that refuses a recipe, with why nothing can be done about it."""
    own, newest = (Counter(rule for one in all_tried for rule in one.errors[place]) for place in (0, 1))
    ordered = sorted({*own, *newest}, key=lambda rule: (-own[rule], -newest[rule], rule))
    return [f"| {rule} | {HARD.get(rule, '?')} | {own[rule]} | {newest[rule]} |" for rule in ordered]


def summary(all_tried: list[Tried]) -> list[str]:
    """The numbers, in words."""
    newest = releases_with_facts("trl")[-1]
    complete = sum(one.taken.is_complete for one in all_tried)
    own, on_newest = (sum(not one.errors[place] for one in all_tried) for place in (0, 1))
    ran = [one for one in all_tried if could_run(one)]
    valid = sum(not one.errors[0] for one in ran)
    with_files = sum(not set(one.errors[0]) - OF_THE_AUTHOR for one in ran)
    counts: Counter[str] = Counter(line.fate for one in all_tried for line in one.taken.rows)
    whole = len(all_tried)
    return [
        f"{whole} configurations of {len({one.repository for one in all_tried})} repositories, {sum(counts.values())}"
        f" keys: {counts['mapped']} mapped, {counts['emulated']} emulated, {counts['refused']} refused.",
        "",
        "| | before | now |",
        "|---|---|---|",
        f"| taken over in full (exit 0) | {BEFORE[0]} of {whole} | {complete} of {whole} |",
        f"| validate on their own release, the author's rewards there | {BEFORE[1]} of {whole} | {own} of {whole} |",
        f"| the same, of those whose batch TRL takes on the processes that are named | | {valid} of {len(ran)} |",
        f"| the same, his rows and his model there too | | {with_files} of {len(ran)} |",
        f"| validate on trl {newest} | | {on_newest} of {whole} |",
    ]


def page(all_tried: list[Tried]) -> str:
    """The text of the page."""
    lines = [
        HEAD,
        *summary(all_tried),
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
        *(row(one) for one in all_tried),
        "",
        "## what validate refuses",
        "",
        "| rule | because | on their own release | on the newest |",
        "|---|---|---|---|",
        *rules(all_tried),
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
