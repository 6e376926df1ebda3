"""docs/rules/: an index of every id, and a page for each family with what `explain` prints."""

import re
import textwrap
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

from grpo_recipes.explain.explain import id_page
from grpo_recipes.explain.pages import known_ids

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
    "MEM": "The memory of the GPUs",
    "PFL": "Preflight",
    "PRE": "Precision",
    "PRF": "Proofs before the first step, and of the first ones",
    "QNT": "Quantization",
    "RWD": "Rewards",
    "SCH": "The recipe's format",
    "SHM": "Shims: what is repaired",
    "SRV": "The vLLM server of a run",
    "STK": "The stack",
    "TOK": "The tokenizer",
    "TOL": "Tools that the model calls",
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
    pages = dict(sorted(known_ids().items()))
    families = {name: list(members) for name, members in groupby(pages, key=lambda rule_id: rule_id[:3])}
    made = {FOLDER / f"{name}.md": _page(name, members, pages) for name, members in families.items()}
    return {FOLDER / "index.md": _index(families, pages), **made}


def _index(families: Mapping[str, list[str]], pages: Mapping[str, str]) -> str:
    lines = [OPENING]
    for name, members in families.items():
        lines += [f"## [{FAMILIES[name]}]({name}.md)", "", "| id | |", "|---|---|"]
        lines += [f"| [{rule_id}]({name}.md#{rule_id.lower()}) | {_title(pages[rule_id])} |" for rule_id in members]
        lines.append("")
    return "\n".join([*lines, "```{toctree}", ":hidden:", "", *families, "```", ""])


def _title(page: str) -> str:
    """The first paragraph of a page, for a table."""
    return _prose(" ".join(page.partition("\n\n")[0].split())).replace("|", "\\|")


def _page(name: str, members: list[str], pages: Mapping[str, str]) -> str:
    lines = [f"# {name}: {FAMILIES[name]}", "", "What `grpo-run explain` prints; [all rules](index.md).", ""]
    for rule_id in members:
        lines += [f"## {rule_id}", "", _body(id_page(rule_id, pages[rule_id]).removeprefix(f"{rule_id}\n\n")), ""]
    return "\n".join(lines)


def _body(page: str) -> str:
    """A page as Markdown, without its id, which is the heading: what is indented is shown as it is."""
    parts = []
    blocks = page.strip("\n").split("\n\n")
    for is_shown, members in groupby(blocks, key=lambda block: block.startswith("    ")):
        joined = "\n\n".join(members)
        parts.append(f"```text\n{textwrap.dedent(joined)}\n```" if is_shown else _prose(joined))
    return "\n\n".join(parts)


def _prose(text: str) -> str:
    """Text with nothing in it that is a mark of Markdown, but for its code in backticks."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(part if part.startswith("`") else MARKS.sub(r"\\\g<0>", part) for part in parts)
