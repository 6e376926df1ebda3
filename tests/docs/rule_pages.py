"""docs/rules/: an index of every id, and a page for each family with what `explain` prints."""

import re
import textwrap
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from grpo_recipes.docs.explain import id_page
from grpo_recipes.docs.pages import known_ids

FOLDER = Path(__file__).parents[2] / "docs" / "rules"

# What Markdown would take for more than text; an underscore within a word is none.
MARKS = re.compile(r"[\\<*\[\]$]|(?m:^>)|(?<![^\W_])_|_(?![^\W_])")

FAMILIES = {
    "BAT": "Batches",
    "DAT": "Data",
    "DSP": "DeepSpeed",
    "EVL": "Evaluation",
    "FCT": "What the target's classes take",
    "FSD": "FSDP2",
    "GEN": "Generation",
    "GRD": "Guards, while a run trains",
    "GRP": "The algorithm, and other fields of GRPOConfig",
    "LOS": "Losses",
    "LRA": "LoRA",
    "MDL": "The model",
    "PFL": "Preflight",
    "PRE": "Precision",
    "PRF": "Proofs of the first steps",
    "QNT": "Quantization",
    "RWD": "Rewards",
    "SCH": "The recipe's format",
    "SHM": "Shims: what is repaired",
    "SRV": "The vLLM server of a run",
    "STK": "The stack",
    "TOK": "The tokenizer",
    "TRN": "Training and checkpoints",
    "TRU": "Trust",
    "VLL": "vLLM",
    "WLD": "Machines and processes",
    "YML": "YAML",
}

OPENING = """\
# Rules

Everything that grpo-run says has an id, and each id a page, which `grpo-run explain ID` prints too: what is kept true
and why, an example with what is said about it, the fix, and what it was proved with. Made by `make docs`.

A rule is a file of `grpo_recipes/rules/`, named by the truth that it defends; see
[A rule](../contributing.md#a-rule) for how to add one, and
[Why a rule can be believed](../how-it-works.md#why-a-rule-can-be-believed).
"""


def texts() -> dict[Path, str]:
    """What the files should hold."""
    ids = sorted(known_ids())
    families = {name: list(members) for name, members in groupby(ids, key=lambda rule_id: rule_id[:3])}
    pages = {FOLDER / f"{name}.md": _page(name, members) for name, members in families.items()}
    return {FOLDER / "index.md": _index(families.items()), **pages}


def _index(families: Iterable[tuple[str, list[str]]]) -> str:
    lines = [OPENING]
    names = []
    for name, members in families:
        names.append(name)
        lines += [f"## [{FAMILIES[name]}]({name}.md)", "", "| id | |", "|---|---|"]
        lines += [f"| [{rule_id}]({name}.md#{rule_id.lower()}) | {_title(rule_id)} |" for rule_id in members]
        lines.append("")
    return "\n".join([*lines, "```{toctree}", ":hidden:", "", *names, "```", ""])


def _title(rule_id: str) -> str:
    """The first paragraph of a page, for a table."""
    return _prose(" ".join(known_ids()[rule_id].partition("\n\n")[0].split())).replace("|", "\\|")


def _page(name: str, members: list[str]) -> str:
    lines = [f"# {name}: {FAMILIES[name]}", "", "What `grpo-run explain` prints; [all rules](index.md).", ""]
    for rule_id in members:
        lines += [f"## {rule_id}", "", _body(rule_id), ""]
    return "\n".join(lines)


def _body(rule_id: str) -> str:
    """The page as Markdown, without its id, which is the heading: what is indented is shown as it is."""
    text = id_page(rule_id, known_ids()[rule_id]).removeprefix(f"{rule_id}\n\n").strip("\n")
    parts = []
    for is_shown, blocks in groupby(text.split("\n\n"), key=lambda block: block.startswith("    ")):
        joined = "\n\n".join(blocks)
        parts.append(f"```text\n{textwrap.dedent(joined)}\n```" if is_shown else _prose(joined))
    return "\n\n".join(parts)


def _prose(text: str) -> str:
    """Text with nothing in it that is a mark of Markdown, but for its code in backticks."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(part if part.startswith("`") else MARKS.sub(r"\\\g<0>", part) for part in parts)
