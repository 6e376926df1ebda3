"""Released wheels on the package index, of which only the files that are asked for are transferred."""

import io
import re
import urllib.request
import zipfile
from collections.abc import Callable
from html.parser import HTMLParser

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

INDEX = "https://pypi.org/simple"
_TIMEOUT_S = 60.0
_ATTEMPTS = 3
_BLOCK_BYTES = 1_048_576


def page(package: str) -> str:
    """The index's page of a package."""
    with urllib.request.urlopen(f"{INDEX}/{package}/", timeout=_TIMEOUT_S) as answer:
        return str(answer.read().decode("utf-8"))


def versions_in(text: str) -> list[str]:
    """Every version that a page of the index lists, oldest first; withdrawn ones were released too."""
    found = set[Version]()
    for name, _ in _links(text):
        try:
            found.add(parse_wheel_filename(name)[1])
        except InvalidWheelFilename:
            try:
                found.add(parse_sdist_filename(name)[1])
            except InvalidSdistFilename:
                continue
    return [str(version) for version in sorted(found)]


def wheels_in(text: str) -> dict[str, str]:
    """Version -> address of one wheel of it, for Linux on x86_64 where there are several."""
    wheels: dict[str, str] = {}
    for name, address in _links(text):
        if name.endswith(".whl") and re.search(r"-any\.whl$|linux\w*_x86_64", name):
            try:
                wheels[str(parse_wheel_filename(name)[1])] = address.partition("#")[0]
            except InvalidWheelFilename:
                continue
    return wheels


def open_wheel(address: str) -> zipfile.ZipFile:
    """A wheel that is read from the network, block by block."""
    return zipfile.ZipFile(Blocks(_length(address), lambda first, last: _bytes(address, first, last)))


class Blocks(io.RawIOBase):
    """A file of `length` bytes whose blocks are fetched when they are first read; read(first, last) is inclusive."""

    def __init__(self, length: int, read: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._length, self._fetch, self._place = length, read, 0
        self._blocks: dict[int, bytes] = {}

    def seekable(self) -> bool:
        """Always."""
        return True

    def readable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """The next byte to be read."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves as io.IOBase.seek does."""
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._length}[whence]
        return self._place

    def read(self, size: int = -1) -> bytes:
        """The next bytes, to the end when size is negative."""
        end = self._length if size < 0 else min(self._length, self._place + size)
        parts = []
        while self._place < end:
            number, offset = divmod(self._place, _BLOCK_BYTES)
            part = self._block(number)[offset : offset + end - self._place]
            parts.append(part)
            self._place += len(part)
        return b"".join(parts)

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            first = number * _BLOCK_BYTES
            last = min(self._length, first + _BLOCK_BYTES) - 1
            block = self._fetch(first, last)
            if len(block) != last - first + 1:
                raise OSError(f"bytes {first}-{last} were asked for and {len(block)} bytes came")
            self._blocks[number] = block
        return self._blocks[number]


class _LinksParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._address = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._address = dict(attrs).get("href") or "" if tag == "a" else self._address

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.found.append((data.strip(), self._address))


def _links(text: str) -> list[tuple[str, str]]:
    """The text and the address of each link."""
    parser = _LinksParser()
    parser.feed(text)
    return parser.found


def _length(address: str) -> int:
    with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=_TIMEOUT_S) as answer:
        return int(answer.headers["Content-Length"])


def _bytes(address: str, first: int, last: int) -> bytes:
    request = urllib.request.Request(address, headers={"Range": f"bytes={first}-{last}"})
    for attempt in range(_ATTEMPTS):
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                if answer.status != 206:
                    raise LookupError(f"{address} is not given in parts")
                return bytes(answer.read())
        except OSError:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")
