"""Reads a recipe file, or the value of an override, as plain values with their places.

Despite findings there is a document if the text could be read completely: a refused value is replaced by its fix, so
that one mistake does not cause two more.
"""

import re
from typing import NamedTuple

from yaml import MarkedYAMLError, YAMLError

from grpo_recipes.contract.findings.finding import Finding, Mark, Path, by_place
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.files import read_recipe
from grpo_recipes.yaml.ids import refusal
from grpo_recipes.yaml.nodes import Reader
from grpo_recipes.yaml.page import Page, find_forbidden, page_of, visible_text
from grpo_recipes.yaml.refusals import GivenUp
from grpo_recipes.yaml.syntax import missing_space, syntax_finding

TABLE_OF_KEYS = "with the table of keys in docs/takeover.md"
# Files in other languages: the name, the pattern of a line, and how to make a recipe of the file.
_SCRIPTS = (
    (
        "a notebook",
        r"\"nbformat\"\s*:",
        "in the notebook, write its GRPOConfig to a file: open('grpo.json', 'w').write(args.to_json_string()); then "
        "grpo-run init --from grpo.json",
    ),
    (
        "a Python script",
        r"(?m)^(?:from|import) trl\b|\bGRPOConfig\(",
        "in the script, write its GRPOConfig to a file: open('grpo.json', 'w').write(args.to_json_string()); then "
        "grpo-run init --from grpo.json",
    ),
    (
        "a shell script",
        r"(?m)^#!.*sh\b|^[ \t]*(?:\w+=\S*[ \t]+)*(?:python3?[ \t]+-m|swift[ \t]+rlhf|accelerate[ \t]+launch|torchrun"
        r"|trl[ \t]+grpo|ray[ \t]+job[ \t]+submit|deepspeed|srun|set[ \t]+-[a-z]+)\b",
        "write the options of trl grpo into a YAML file for grpo-run init --from; for those of other programs, "
        f"grpo-run init writes a small recipe, to be filled in {TABLE_OF_KEYS}",
    ),
    (
        "TOML",
        r"(?m)^\[\[?[\w.]+\]\]?[ \t]*$",
        f"grpo-run init writes a small recipe, to be filled in {TABLE_OF_KEYS}",
    ),
)


class Document(NamedTuple):
    """The values of one file and their places.

    marks: of every mapping entry and list item, from the key's first character to the value's end, on the
    first line only; () is the start of the top-level mapping.
    words: plain scalars that YAML 1.1 reads as booleans (yes no on off y n in any case), kept as text.
    """

    file: str
    values: dict[str, object]
    marks: dict[Path, Mark]
    words: frozenset[Path]


class Value(NamedTuple):
    """One value read, a document's root or an override's right-hand side."""

    value: object
    marks: dict[Path, Mark]
    words: set[Path]


def load_file(path: str, name: str = "") -> tuple[Document | None, list[Finding]]:
    """Reads a recipe file; None if it cannot be used at all. name: the file's name in marks, if not its path."""
    text = read_recipe(path)
    return (None, [text]) if isinstance(text, Finding) else load_text(text, name or path)


def load_text(text: str, file: str) -> tuple[Document | None, list[Finding]]:
    """Reads a recipe from text; file: its name in marks. None if it cannot be used at all."""
    page = page_of(text.removeprefix("\ufeff"), file)
    reader = Reader(page)
    findings, complete = _read(reader)
    root = reader.root
    is_mapping = root is not None and isinstance(root.value, dict)
    if (not complete or (root is not None and not is_mapping)) and (other := script(text)) is not None:
        kind, line, fix = other
        because = f"a recipe is YAML{'' if kind == 'TOML' else ', and grpo-run does not run the script'}"
        mark = page.mark(line, 0, 1 << 30)
        return None, [refusal(ids.NOT_A_MAPPING, f"the file is {kind}, not a recipe", mark, fix, because)]
    if not complete:
        return None, findings
    if root is None or root.value is None:
        because = "it holds no value, at most comments"
        fix = "grpo-run init writes one"
        return None, [refusal(ids.EMPTY, "the file is empty", page.mark(0, 0, 1), fix, because)]
    if not is_mapping:
        is_list = isinstance(root.value, list)
        because = "the file is a list" if is_list else f"the file is one single value: {visible_text(str(root.value))}"
        written = next(filter(None, map(missing_space, () if is_list else page.lines)), None)
        fix = written or "write keys with values: `key: value`"
        return None, [refusal(ids.NOT_A_MAPPING, "the top level is not a mapping", reader.marks[()], fix, because)]
    return Document(file, root.value, reader.marks, frozenset(reader.words)), findings


def script(text: str) -> tuple[str, int, str] | None:
    """The kind of a file in another language, the line that identifies it, from 0, and how to get a recipe; None for
    any other text.
    """
    for kind, pattern, fix in _SCRIPTS:
        match = re.search(pattern, text)
        if match is not None:
            return kind, text.count("\n", 0, match.start()), fix
    return None


def read_value(page: Page, path: Path) -> tuple[Value | None, list[Finding]]:
    """Reads the one-line value of an override; path: its key."""
    whole = page.mark(0, 0, 1 << 30)
    if "\n" in page.text or "\r" in page.text:
        fix = 'write \\n inside double quotes: "first\\nsecond"'
        return None, [refusal(ids.OVERRIDE_SYNTAX, "the value of an override is one line", whole, fix)]
    reader = Reader(page, path)
    findings, complete = _read(reader)
    root, event = reader.root, reader.root_event
    if not complete:
        return None, findings
    if page.text[root.end if root else 0 :].strip():
        because = "YAML takes # after a space as the start of a comment"
        message = "the end of the override's value would be dropped"
        return None, [refusal(ids.OVERRIDE_SYNTAX, message, whole, "write the value in quotes", because)]
    if root is None or event is None:
        return Value(None, {path: page.mark(0, 0, 0)}, set()), findings
    if isinstance(root.value, list | dict) and not event.flow_style:
        message = "the value of an override is not a scalar, [list] or {mapping}"
        fix = "write the text in quotes, or the brackets around it"
        return None, [refusal(ids.OVERRIDE_SYNTAX, message, whole, fix)]
    return Value(root.value, reader.marks, reader.words), findings


def _read(reader: Reader) -> tuple[list[Finding], bool]:
    """All findings of a page, and whether it was read completely."""
    page, findings = reader.page, reader.refuse.findings
    forbidden = find_forbidden(page.text)
    if forbidden is not None:
        mark = page.mark_at(forbidden.start())
        name = "a NUL byte: it is binary" if forbidden[0] == "\0" else f"the character U+{ord(forbidden[0]):04X}"
        return [refusal(ids.NOT_TEXT, f"the text contains {name}", mark, "remove it")], False
    directive = _directive(page)
    if directive is not None:
        return [directive], False
    try:
        return by_place(reader.read()), True
    except GivenUp:
        return by_place(findings), False
    except MarkedYAMLError as error:
        finding = syntax_finding(error, page)
    except YAMLError as error:
        message = f"the text is not YAML: {visible_text(str(error), 80)}"
        finding = refusal(ids.SYNTAX, message, page.mark(0, 0, 1), "save the file as UTF-8 text")
    line = finding.mark.line if finding.mark else 0
    return by_place([*(f for f in findings if f.mark is None or f.mark.line != line), finding]), False


def _directive(page: Page) -> Finding | None:
    for number, line in enumerate(page.lines):
        if line.startswith("%") and line.split("#")[0].split() != ["%YAML", "1.2"]:
            return refusal(ids.DIRECTIVE, "a directive starts here", page.mark(number, 0, len(line)), "remove the line")
        if line.strip() and not line.startswith(("%", "#")):
            return None
    return None
