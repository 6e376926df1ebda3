"""Parses a page of `grpo-run report`."""

import json
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "input", "br", "hr", "img", "link"}


class Page(HTMLParser):
    """A parsed page. Raises AssertionError for an unclosed tag.

    tags: each with its attributes. first_screen: the text up to the list of parts. data: of the charts.
    """

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.first_screen = ""
        self._open: list[str] = []
        self._attributes: dict[str, str | None] = {}
        self.data: dict[str, Any] = {}
        self.feed(text)
        self.close()
        assert self._open == [], self._open

    @property
    def text(self) -> str:
        """Returns the text that a reader sees."""
        return " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._attributes = dict(attrs)
        if tag == "nav":
            self.first_screen = self.text
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open[-1] == tag, f"</{tag}> in {self._open[-3:]}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["script"]:
            if self._attributes.get("type") == "application/json":
                self.data = json.loads(data)
            else:
                self.scripts.append(data)
        elif self._open[-1:] != ["style"]:
            self.texts.append(data)

    def chart(self, identity: str) -> dict[str, Any]:
        """Returns a chart by id."""
        found: dict[str, Any] = next(one for one in self.data["charts"] if one["id"] == identity)
        return found
