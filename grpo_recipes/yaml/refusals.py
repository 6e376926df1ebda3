"""The YAML layer's refusals as findings: where, what, because, fix."""

import re
from typing import Any, NoReturn

from grpo_recipes.contract.findings.finding import Finding, Mark, Patch, Path
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.ids import key_text, refusal
from grpo_recipes.yaml.page import Page, single_quoted, visible_text
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

    def mark(self, event: Event, last: Event = None) -> Mark:
        """The place of an event, or from it to the last one, on its first line."""
        start, end = event.start_mark, (last or event).end_mark
        return self.page.mark(start.line, start.column, end.column if end.line == start.line else 1 << 30)

    def add(
        self,
        rule: str,
        message: str,
        where: Event | Mark,
        path: Path,
        fix: str,
        because: str = "",
        patch: tuple[Patch, ...] = (),
    ) -> None:
        """Adds a finding. because: by default, the meaning of the rule."""
        mark = where if isinstance(where, Mark) else self.mark(where)
        self.findings.append(refusal(rule, message, mark, fix, because, path, patch))

    def give_up(self, rule: str, message: str, event: Event, fix: str, path: Path = ()) -> NoReturn:
        """Adds a finding after which nothing more can be read."""
        self.add(rule, message, event, path, fix)
        raise GivenUp

    def scalar(self, event: Event, path: Path, refused: RefusedScalar) -> None:
        """Reports a plain scalar that YAML readers disagree on."""
        fix = _entry(path, refused.written) or "write a text in quotes, a number in decimal digits"
        self.add(refused.rule, refused.message, event, path, fix, patch=_patch(path, refused.value))

    def tag(self, event: Event, path: Path, text: str | None) -> None:
        """Reports a tag; text: of the tagged scalar, else None."""
        tag = visible_text(event.tag.replace("tag:yaml.org,2002:", "!!", 1), 40)
        fix, patch = f"remove {tag}", _patch((), None)
        if text is not None and event.tag == STRING_TAG:
            fix, patch = _entry(path, single_quoted(text)) or "write the text in quotes", _patch(path, text)
        self.add(ids.TAG, f"the tag {tag} is not allowed", event, path, fix, patch=patch)

    def key_not_text(self, event: Event, path: Path, text: str | None) -> None:
        """Reports a key that is not text; text: of a plain scalar, None for a list, a mapping or an alias."""
        if text is None:
            message = "a list, a mapping or an alias is used as a key"
            self.add(ids.KEY_NOT_TEXT, message, event, path, "write the key as a word")
            return
        name = visible_text(text, 40)
        before = re.search(r"(-?[0-9]+),$", self.page.text[: event.start_mark.index][-20:])
        because = f"in {{...}} a comma ends the value {before[1]}" if before else ""
        fix = f"a decimal point: {before[1]}.{text}" if before else f'"{name}":'
        self.add(ids.KEY_NOT_TEXT, f"the key {name or '(empty)'} is not text", event, path, fix, because)

    def duplicate_key(self, key: str, lines: list[int], mark: Mark, path: Path) -> None:
        """Reports a duplicate key of a mapping; lines count from 0, mark: of the last one."""
        numbers = ", ".join([str(line + 1) for line in lines[:5]] + ["..."] * (len(lines) > 5))
        name, times = visible_text(key, 40), "twice" if len(lines) == 2 else f"{len(lines)} times"
        message = f"{name} is written {times}, on lines {numbers}"
        self.add(ids.DUPLICATE_KEY, message, mark, path, f"keep one {name}")

    def add_unquoted_template(self, start: Event, end: Event, path: Path, text: str) -> None:
        """Reports an unquoted template {{ ... }}, which YAML reads as a mapping with a mapping as its key."""
        fix = _entry(path, double_quoted(text)) or "write the template in quotes"
        mark = self.mark(start, end)
        self.add(ids.UNQUOTED_TEMPLATE, UNQUOTED, mark, path, fix, patch=_patch(path, text))

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
        self.add(ids.CONTROL_CHARACTER, message, event, path, fix, because, patch)
        return meant or text

    def invisible_in_key(self, event: Event, path: Path) -> str:
        """The key without invisible characters, such as a no-break space, which are reported."""
        key: str = event.value
        visible = "".join(character for character in key if character.isprintable())
        hidden = next(character for character in key if not character.isprintable())
        message = f"the key {visible_text(key, 40)} contains the invisible character U+{ord(hidden):04X}"
        fix = f"{visible_text(visible, 40) or 'name'}:"
        self.add(ids.CONTROL_CHARACTER, message, event, (*path[:-1], visible), fix)
        return visible

    def invisible_in_text(self, event: Event, path: Path) -> None:
        """Warns about the first invisible character of a value, unless it joins letters or emoji."""
        start, text = event.start_mark.index, self.page.text[event.start_mark.index : event.end_mark.index]
        hidden = [match for match in re.finditer(_INVISIBLE, text) if match[1]]
        if not hidden:
            return
        from unicodedata import name  # few recipes have any

        first = hidden[0][1]
        message = f"the text contains the invisible character U+{ord(first):04X} {name(first, '')}".rstrip()
        because = f"the model and the libraries read it; the text has {len(hidden)} such characters"
        fix = f"remove it, or write it as {first.encode('unicode_escape').decode()} in double quotes if it is intended"
        mark = self.page.mark_at(start + hidden[0].start())
        self.findings.append(Finding(ids.CONTROL_CHARACTER, "warning", message, key_text(path), mark, (because,), fix))


def double_quoted(text: str) -> str:
    """The text as a YAML scalar in double quotes, or in single ones if that saves escapes."""
    return single_quoted(text) if '"' in text or "\\" in text else f'"{text}"'


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
