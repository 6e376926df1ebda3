"""The YAML layer's refusals as findings: where, what, because, fix."""

import re
from typing import Any, NoReturn

from grpo_recipes.contract.findings.finding import Finding, Mark, Patch, Path, path_text
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.page import Page, page_of, single_quoted, visible_text
from grpo_recipes.yaml.scalars import RefusedScalar

Event = Any
"""A yaml.events.Event; its stubs let marks be missing, which the parser never does."""

STRING_TAG = "tag:yaml.org,2002:str"
MAX_FIX = 100
UNQUOTED = "a template that starts with {{ is not quoted"

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
        self,
        rule: str,
        message: str,
        path: Path,
        mark: Mark,
        fix: str,
        because: str = "",
        patch: tuple[Patch, ...] = (),
    ) -> None:
        """Adds a finding. because: by default, the meaning of the rule."""
        because = because or ids.MEANINGS[rule]
        self.findings.append(Finding(rule, "error", message, key_text(path), mark, (because,), fix, patch))

    def give_up(self, rule: str, message: str, event: Event, fix: str, path: Path = ()) -> NoReturn:
        """Adds a finding after which nothing more can be read."""
        self.add(rule, message, path, self.mark(event), fix)
        raise GivenUp

    def scalar(self, event: Event, path: Path, refusal: RefusedScalar) -> None:
        """Reports a plain scalar that YAML readers disagree on."""
        fix = _entry(path, refusal.written) or "write a text in quotes, a number in decimal digits"
        self.add(refusal.rule, refusal.message, path, self.mark(event), fix, patch=_patch(path, refusal.value))
        self.findings[-1] = self.findings[-1]._replace(because=refusal.because)

    def tag(self, event: Event, path: Path, text: str | None) -> None:
        """Reports a tag; text: of the tagged scalar, else None."""
        tag = event.tag.replace("tag:yaml.org,2002:", "!!", 1)
        fix, patch = f"remove {visible_text(tag, 40)}", _patch((), None)
        if text is not None and event.tag == STRING_TAG:
            fix, patch = _entry(path, single_quoted(text)) or "write the text in quotes", _patch(path, text)
        self.add(ids.TAG, f"the tag {visible_text(tag, 40)} is not allowed", path, self.mark(event), fix, patch=patch)

    def key_not_text(self, event: Event, path: Path, text: str | None) -> None:
        """Reports a key that is not text; text: of a plain scalar, None for a list, a mapping or an alias."""
        message = "a list, a mapping or an alias is used as a key"
        because, fix = "", "write the key as a word"
        if text is not None:
            message = f"the key {visible_text(text, 40)} is not text" if text else "a key is empty"
            fix = f'"{visible_text(text, 40)}":'
            before = re.search(r"(-?[0-9]+),$", self.page.text[: event.start_mark.index][-20:])
            if before is not None:
                because, fix = f"in {{...}} a comma ends the value {before[1]}", f"a decimal point: {before[1]}.{text}"
        self.add(ids.KEY_NOT_TEXT, message, path, self.mark(event), fix, because)

    def duplicate_key(self, key: str, lines: list[int], mark: Mark, path: Path) -> None:
        """Reports a duplicate key of a mapping; lines count from 0, mark: of the last one."""
        numbers = ", ".join([str(line + 1) for line in lines[:5]] + ["..."] * (len(lines) > 5))
        times = "twice" if len(lines) == 2 else f"{len(lines)} times"
        message, fix = (
            f"{visible_text(key, 40)} is written {times}, on lines {numbers}",
            f"keep one {visible_text(key, 40)}",
        )
        self.add(ids.DUPLICATE_KEY, message, path, mark, fix)

    def add_unquoted_template(self, start: Event, end: Event, path: Path, text: str) -> None:
        """Reports an unquoted template {{ ... }}, which YAML reads as a mapping with a mapping as its key."""
        first, last = start.start_mark, end.end_mark
        mark = self.page.mark(first.line, first.column, last.column if last.line == first.line else 1 << 30)
        fix = _entry(path, double_quoted(text)) or "write the template in quotes"
        self.add(ids.UNQUOTED_TEMPLATE, UNQUOTED, path, mark, fix, patch=_patch(path, text))

    def control_characters(self, event: Event, path: Path) -> str:
        """The intended text of a double-quoted scalar; reports an escape that turned into a control character."""
        text: str = event.value
        if text.isprintable():
            return text
        from grpo_recipes.yaml.not_the_text import is_pattern, tab_of_tex, with_tex  # few recipes have such a text

        match = re.search(_CONTROL, text)
        if match is None:
            self.findings += tab_of_tex(self.page, event, path)
            return text
        raw = self.page.text[event.start_mark.index + 1 : event.end_mark.index - 1]
        meant, written = _intended_text(raw)
        if meant is not None and is_pattern(path):
            meant = with_tex(meant)
            written = single_quoted(meant)
        message = f"the text in double quotes contains the control character U+{ord(match[0]):04X}"
        letters = [escape[1] for escape in re.finditer(_ESCAPE, raw) if escape[1] in _CONTROL_LETTERS]
        because = f"in double quotes \\{letters[0]} is an escape for it" if letters else "no recipe value needs one"
        fix = _entry(path, written) if meant is not None else None
        fix = fix or "write the text in single quotes, where a backslash is a backslash"
        patch = _patch(path, meant) if meant else ()
        self.add(ids.CONTROL_CHARACTER, message, path, self.mark(event), fix, because, patch)
        return meant or text

    def invisible_in_key(self, event: Event, path: Path) -> str:
        """The key without invisible characters, such as a no-break space, which are reported."""
        key: str = event.value
        visible = "".join(character for character in key if character.isprintable())
        hidden = next(character for character in key if not character.isprintable())
        message = f"the key {visible_text(key, 40)} contains the invisible character U+{ord(hidden):04X}"
        fix = f"{visible_text(visible, 40)}:" if visible else "write the key as a word"
        self.add(ids.CONTROL_CHARACTER, message, (*path[:-1], visible), self.mark(event), fix)
        return visible

    def invisible_in_text(self, event: Event, path: Path) -> None:
        """Warns about the first invisible character of a value, unless it joins letters or emoji."""
        start, text = event.start_mark.index, self.page.text[event.start_mark.index : event.end_mark.index]
        places = [match for match in re.finditer(_INVISIBLE, text) if match[1]]
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
        self.findings.append(
            Finding(ids.CONTROL_CHARACTER, "warning", message, key_text(path), mark, tuple(because), fix)
        )


def double_quoted(text: str) -> str:
    """The text as a YAML scalar in double quotes, or in single ones if that saves escapes."""
    return single_quoted(text) if '"' in text or "\\" in text else f'"{text}"'


def key_text(path: Path) -> str:
    """The key of a path for a finding, cut if it is very long."""
    return visible_text(path_text(path), 200)


def _entry(path: Path, written: str) -> str | None:
    """The line to paste, or None if it would be too long."""
    if len(written) > MAX_FIX or not written.isprintable():
        return None
    return f"{visible_text(path[-1], 40)}: {written}" if path and isinstance(path[-1], str) else written


def _patch(path: Path, value: object) -> tuple[Patch, ...]:
    return (Patch(path, value),) if path else ()


def _intended_text(raw: str) -> tuple[str | None, str]:
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
