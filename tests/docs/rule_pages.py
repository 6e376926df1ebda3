"""docs/rules/: an index of every id, and a page for each family with what `explain` prints."""

import re
import textwrap
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

from grpo_recipes.explain.pages import id_page, known_ids

FOLDER = Path(__file__).parents[2] / "docs" / "rules"

# What Markdown would take for more than text; an underscore within a word is none.
MARKS = re.compile(r"[\\<*\[\]$]|(?m:^>)|(?<![^\W_])_|_(?![^\W_])")

# The statement that a page begins with: its first sentence, up to a colon or a semicolon outside of code.
STATEMENT = re.compile(r"((?:`[^`]*`|[^`])+?)(?<!e\.g)[.:;](?: |$)")

# The families in the order in which people meet them.
FAMILIES_BY_TIME = {
    "Reading a recipe": {
        "YML": "YAML",
        "SCH": "The recipe's format",
        "FCT": "What the target's classes accept",
        "TRU": "Trust",
    },
    "What is learned": {
        "DAT": "Data",
        "RWD": "Rewards",
        "TOL": "Tools that the model calls",
        "GRP": "The algorithm, and other fields of GRPOConfig",
        "LOS": "Losses",
        "BAT": "Batches",
        "TRN": "Training and checkpoints",
        "EVL": "Evaluation",
    },
    "The model": {
        "MDL": "The model",
        "TOK": "The tokenizer",
        "LRA": "LoRA",
        "QNT": "Quantization",
        "PRE": "Precision",
    },
    "Machines, memory and the stack": {
        "STK": "The stack",
        "MEM": "GPU memory",
        "WLD": "Machines and processes",
        "DSP": "DeepSpeed",
        "FSD": "FSDP2",
        "GEN": "Generation",
        "VLL": "vLLM",
        "SRV": "A run's vLLM server",
        "SHM": "Shims: repairs of releases",
    },
    "Before, during and after the training": {
        "PFL": "Preflight",
        "PRF": "Proofs before and in the first steps",
        "GRD": "Guards during training",
        "VRD": "What a finished run means",
    },
}
FAMILIES = {name: title for families in FAMILIES_BY_TIME.values() for name, title in families.items()}

OPENING = """\
# Rules

Every finding about a recipe, a stack, a machine or a run has an id and a page, which `grpo-run explain ID` also
prints: what the rule checks and why, an example with its message, the fix, and the proof. Requests for your consent,
and errors about how you called a command, have no id. `make docs` generates these pages.

Each rule is a file in `grpo_recipes/rules/`, named after the invariant that it enforces. See also
[Adding a rule](../contributing.md#adding-a-rule) and [How rules are proved](../how-it-works.md#how-rules-are-proved).
"""


def texts() -> dict[Path, str]:
    """What the files should hold."""
    pages = dict(sorted(known_ids().items()))
    families = {name: list(members) for name, members in groupby(pages, key=lambda rule_id: rule_id[:3])}
    made = {FOLDER / f"{name}.md": _page(name, members, pages) for name, members in families.items()}
    return {FOLDER / "index.md": _index(families, pages), **made}


def _index(families: Mapping[str, list[str]], pages: Mapping[str, str]) -> str:
    lines = [OPENING]
    for time, names in FAMILIES_BY_TIME.items():
        lines += [f"## {time}", ""]
        for name, title in names.items():
            lines += [f"### [{title}]({name}.md)", "", *_table(families[name], pages), ""]
    return "\n".join([*lines, "```{toctree}", ":hidden:", "", *FAMILIES, "```", ""])


def _table(members: list[str], pages: Mapping[str, str]) -> list[str]:
    said = {rule_id: _prose(_statement(pages[rule_id])).replace("|", "\\|") for rule_id in members}
    rows = [f"| [{rule_id}]({rule_id[:3]}.md#{rule_id.lower()}) | {text} |" for rule_id, text in said.items()]
    return ["| id | |", "|---|---|", *rows]


def _statement(page: str) -> str:
    """What a page says in a few words, in tables and in its heading."""
    sentence = " ".join(page.partition("\n\n")[0].split())
    found = STATEMENT.match(sentence)
    return sentence if found is None else found[1]


def _page(name: str, members: list[str], pages: Mapping[str, str]) -> str:
    lines = [f"# {FAMILIES[name]} ({name})", "", "What `grpo-run explain` prints; [all rules](index.md).", ""]
    lines += [*_table(members, pages), ""] if len(members) > 1 else []
    for rule_id in members:
        page = (id_page(rule_id) or "").removeprefix(f"{rule_id}\n\n")
        first, _, rest = page.partition("\n\n")
        statement = _statement(page)
        body = rest if " ".join(first.split()).rstrip(".") == statement else page
        # Links say #bat001, wherever the page is shown; docs/anchors.py tells Sphinx.
        lines += [f'<a id="{rule_id.lower()}"></a>', "", f"## {rule_id}: {_prose(statement)}", ""]
        lines += [_body(body), ""] if body else []
    return "\n".join(lines)


def _body(page: str) -> str:
    """A page as Markdown, without what its heading says: what is indented is shown as it is."""
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
