"""The YAML layer's refusals as findings: where, what, because, fix."""

import re
from typing import Any, NoReturn

from grpo_recipes.contract.findings.finding import Finding, Mark, Patch, Path, dotted
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.page import Page, page_of, shown, single_quoted
from grpo_recipes.yaml.scalars import RefusedScalar

Event = Any
"""A yaml.events.Event; its stubs let marks be missing, which the parser never does."""

STRING_TAG = "tag:yaml.org,2002:str"
MAX_FIX = 100
UNQUOTED = "a template that starts with {{ is not quoted"
READ_AS_A_MAPPING = "YAML reads { as the start of a mapping"

_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
_TAGS = "\U000e0000-\U000e007f"
# The flags of England, Scotland and Wales are spelled with tag characters after a black flag.
_INVISIBLE = rf"\U0001f3f4[{_TAGS}]+|([\u200b\u2060{_TAGS}])"
_ESCAPE = r"(?s)\\(.)"
_CONTROL_LETTERS = "abvfe0NLP"


class GivenUp(Exception):
    """Nothing more can be read after the last finding."""


class Refusals:
    """Collects the findings of one page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.findings: list[Finding] = []

    def mark(self, event: Event) -> Mark:
        """The place of an event, on its first line."""
        start, end = event.start_mark, event.end_mark
        return self.page.mark(start.line, start.column, end.column if end.line == start.line else 1 << 30)

    def add(
        self, rule: str, message: str, path: Path, mark: Mark, because: str, fix: str, patch: tuple[Patch, ...] = ()
    ) -> None:
        """Adds a finding."""
        self.findings.append(Finding(rule, "error", message, named(path), mark, (because,), fix, patch))

    def scalar(self, event: Event, path: Path, refusal: RefusedScalar) -> None:
        """Reports a plain scalar that YAML readers disagree on."""
        fix = _entry(path, refusal.written) or "write a text in quotes, a number in decimal digits"
        self.add(refusal.rule, refusal.message, path, self.mark(event), "", fix, _patch(path, refusal.value))
        self.findings[-1] = self.findings[-1]._replace(because=refusal.because)

    def tag(self, event: Event, path: Path, text: str | None) -> None:
        """Reports a tag; text: of the tagged scalar, else None."""
        tag = event.tag.replace("tag:yaml.org,2002:", "!!", 1)
        because = "a tag asks the reader to build an object; a recipe holds plain values only"
        fix = f"remove {shown(tag, 40)}"
        patch: tuple[Patch, ...] = ()
        if text is not None and event.tag == STRING_TAG:
            fix, patch = _entry(path, single_quoted(text)) or "write the text in quotes", _patch(path, text)
        self.add(ids.TAG, f"the tag {shown(tag, 40)} is not allowed", path, self.mark(event), because, fix, patch)

    def merge_key(self, event: Event, path: Path) -> None:
        """Reports an unquoted << key."""
        because = "YAML 1.2 has no merge key, and YAML 1.1's replaces nested maps instead of merging them"
        fix = "put the shared part into a separate file and write at the top level: extends: base.yaml"
        self.add(ids.MERGE_KEY, "the merge key << is not allowed", path, self.mark(event), because, fix)

    def key_not_text(self, event: Event, path: Path, text: str | None) -> None:
        """Reports a key that is not text; text: of a plain scalar, None for a list, a mapping or an alias."""
        message = "a list, a mapping or an alias is used as a key"
        because, fix = "keys are text", "write the key as a word"
        if text is not None:
            message = f"the key {shown(text, 40)} is not text" if text else "a key is empty"
            because = "unquoted, YAML reads it as a number, a boolean or null, depending on the version"
            fix = f'"{shown(text, 40)}":'
        self.add(ids.KEY_NOT_TEXT, message, path, self.mark(event), because, fix)

    def duplicate_key(self, key: str, lines: list[int], mark: Mark, path: Path) -> None:
        """Reports a duplicate key of a mapping; lines count from 0, mark: of the last one."""
        numbers = ", ".join([str(line + 1) for line in lines[:5]] + ["..."] * (len(lines) > 5))
        times = "twice" if len(lines) == 2 else f"{len(lines)} times"
        message = f"{shown(key, 40)} is written {times}, on lines {numbers}"
        because = "YAML readers keep the last one and silently drop the others"
        fix = f"keep one {shown(key, 40)} and remove the others"
        self.add(ids.DUPLICATE_KEY, message, path, mark, because, fix)

    def unquoted_template(self, start: Event, end: Event, path: Path, text: str) -> None:
        """Reports an unquoted template {{ ... }}, which YAML reads as a mapping with a mapping as its key."""
        first, last = start.start_mark, end.end_mark
        mark = self.page.mark(first.line, first.column, last.column if last.line == first.line else 1 << 30)
        fix = _entry(path, double_quoted(text)) or "write the template in quotes"
        self.add(ids.UNQUOTED_TEMPLATE, UNQUOTED, path, mark, READ_AS_A_MAPPING, fix, _patch(path, text))

    def control_characters(self, event: Event, path: Path) -> str:
        """The intended text of a double-quoted scalar; reports an escape that turned into a control character."""
        text: str = event.value
        found = None if text.isprintable() else re.search(_CONTROL, text)
        if found is None:
            return text
        raw = self.page.text[event.start_mark.index + 1 : event.end_mark.index - 1]
        meant, written = _meant(raw)
        message = f"the text in double quotes contains the control character U+{ord(found[0]):04X}"
        letters = [escape[1] for escape in re.finditer(_ESCAPE, raw) if escape[1] in _CONTROL_LETTERS]
        because = f"in double quotes \\{letters[0]} is an escape for it" if letters else "no recipe value needs one"
        fix = _entry(path, written) if meant is not None else None
        fix = fix or "write the text in single quotes, where a backslash is a backslash"
        patch = _patch(path, meant) if meant else ()
        self.add(ids.CONTROL_CHARACTER, message, path, self.mark(event), because, fix, patch)
        return meant or text

    def invisible_in_key(self, event: Event, path: Path) -> str:
        """The key without invisible characters, such as a no-break space, which are reported."""
        key: str = event.value
        visible = "".join(character for character in key if character.isprintable())
        hidden = next(character for character in key if not character.isprintable())
        message = f"the key {shown(key, 40)} contains the invisible character U+{ord(hidden):04X}"
        because = "a key with it looks like another key"
        fix = f"{shown(visible, 40)}:" if visible else "write the key as a word"
        self.add(ids.CONTROL_CHARACTER, message, (*path[:-1], visible), self.mark(event), because, fix)
        return visible

    def invisible_in_text(self, event: Event, path: Path) -> None:
        """Warns about the first invisible character of a value, unless it joins letters or emoji."""
        start, text = event.start_mark.index, self.page.text[event.start_mark.index : event.end_mark.index]
        places = [found for found in re.finditer(_INVISIBLE, text) if found[1]]
        if not places:
            return
        from unicodedata import name  # few recipes have any

        hidden, before = places[0][1], page_of(self.page.text[: start + places[0].start()] + ".", "").lines
        mark = self.page.mark(len(before) - 1, len(before[-1]) - 1, len(before[-1]))
        message = f"the text contains the invisible character U+{ord(hidden):04X} {name(hidden, '')}".rstrip()
        because = ["it is invisible, but the model and the libraries read it"]
        if len(places) > 1:
            because.append(f"the text has {len(places)} such characters")
        fix = f"remove it, or write it as {hidden.encode('unicode_escape').decode()} in double quotes if it is intended"
        self.findings.append(Finding(ids.CONTROL_CHARACTER, "warning", message, named(path), mark, tuple(because), fix))

    def second_document(self, event: Event) -> NoReturn:
        """Reports a second `---`."""
        fix = "remove this line and what follows, or put it into a separate file"
        self._give_up(ids.SECOND_DOCUMENT, "a second document starts here", event, "a recipe is one document", fix)

    def too_deep(self, event: Event, limit: int) -> NoReturn:
        """Reports lists and mappings nested below the limit."""
        message = f"lists and mappings are nested more than {limit} levels deep"
        fix = "look for a bracket that is not closed"
        self._give_up(ids.TOO_DEEP, message, event, "a recipe needs fewer than ten", fix)

    def too_many_values(self, event: Event, limit: int, has_aliases: bool) -> NoReturn:
        """Reports more values than the limit, aliases expanded."""
        counted = ", with aliases expanded" if has_aliases else ""
        message = f"the file holds more than {limit:,} values{counted}"
        fix = "remove the aliases that repeat each other" if has_aliases else "keep data in a data file"
        self._give_up(ids.TOO_MANY_VALUES, message, event, "a recipe needs a few hundred", fix)

    def alias(self, event: Event, path: Path, name: str, is_recursive: bool) -> NoReturn:
        """Reports an alias without a complete anchor before it."""
        known = shown(name, 40)
        message = f"the alias *{known} has no anchor &{known} before it"
        because = "* at the start of a value names an anchor"
        fix = f'for the text, write it in quotes: "*{known}"'
        if is_recursive:
            message = f"the alias *{known} is inside its own anchor"
            because, fix = "it would contain itself without end", "write out the value that is meant"
        self._give_up(ids.ALIAS, message, event, because, fix, path)

    def _give_up(self, rule: str, message: str, event: Event, because: str, fix: str, path: Path = ()) -> NoReturn:
        self.add(rule, message, path, self.mark(event), because, fix)
        raise GivenUp


def double_quoted(text: str) -> str:
    """The text as a YAML scalar in double quotes, or in single ones if that saves escapes."""
    return single_quoted(text) if '"' in text or "\\" in text else f'"{text}"'


def named(path: Path) -> str:
    """The key of a path for a finding, cut if it is very long."""
    return shown(dotted(path), 200)


def _entry(path: Path, written: str) -> str | None:
    """The line to paste, or None if it would be too long."""
    if len(written) > MAX_FIX or not written.isprintable():
        return None
    return f"{shown(path[-1], 40)}: {written}" if path and isinstance(path[-1], str) else written


def _patch(path: Path, value: object) -> tuple[Patch, ...]:
    return (Patch(path, value),) if path else ()


def _meant(raw: str) -> tuple[str | None, str]:
    """The intended text of a double-quoted source, and how to write it; None if it is ambiguous.

    It is clear if all other escapes are escaped quotes and backslashes; next to \\n or \\t the intention is unknown.
    """
    letters = {escape[1] for escape in re.finditer(_ESCAPE, raw)}
    unmeant = letters & set(_CONTROL_LETTERS)
    if "\n" in raw or not unmeant or letters - unmeant - set('"\\'):
        return None, ""
    if letters == unmeant:
        return raw, single_quoted(raw)
    doubled = re.sub(_ESCAPE, lambda e: "\\\\" + e[1] if e[1] in unmeant else e[0], raw)
    meant = re.sub(_ESCAPE, lambda e: e[0] if e[1] in unmeant else e[1], raw)
    return meant, f'"{doubled}"'
