"""Finds what functions of the installed packages refuse and warn of, by reading their source."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from grpo_recipes.facts.source.package_facts import package_folder

TELLING = ("warn", "warning", "warning_once", "warning_advice", "warn_once", "error", "exception", "critical")
TELLERS = ("warnings", "logger", "logging")
SHORT = 50


@dataclass(frozen=True, slots=True)
class Site:
    """One statement that raises or warns. function: its qualified name. text: as ast.unparse writes it.

    The same text twice in a function is one site.
    """

    file: str
    function: str
    text: str

    @property
    def place(self) -> str:
        """As an answer names it."""
        return f"{self.file}::{self.function}"


def newest_stack_is_installed(releases: dict[str, str]) -> str:
    """Why the installed packages are not these releases, "" when they are."""
    for package, wanted in releases.items():
        try:
            found = version(package)
        except PackageNotFoundError:
            return f"{package} is not installed"
        if found != wanted:
            return f"{package} {found} is installed, and the answers are for {wanted}"
    return ""


@cache
def sites_of_file(file: str) -> tuple[Site, ...]:
    """All sites of a file such as "trl/trainer/grpo_config.py", in the order of its lines.

    Raises FileNotFoundError when the package or the file is not there.
    """
    package, _, rest = file.partition("/")
    folder = package_folder(package)
    if folder is None:
        raise FileNotFoundError(package)
    tree = ast.parse(Path(folder, rest).read_text(encoding="utf-8"))
    return tuple(dict.fromkeys(Site(file, name, text) for name, text in _statements(tree, "")))


def sites_in(file: str, name: str) -> list[Site]:
    """The sites of a function or class of a file and of everything inside it; "" is the whole file."""
    return [site for site in sites_of_file(file) if not name or f"{site.function}.".startswith(f"{name}.")]


def walked_sites(files: dict[str, tuple[str, ...]]) -> list[Site]:
    """The sites of these functions, by file, in the order of its lines."""
    found: list[Site] = []
    for file, names in files.items():
        wanted = {site for name in names for site in sites_in(file, name)}
        found += [site for site in sites_of_file(file) if site in wanted]
    return found


def shortest_words(site: Site, others: Sequence[Site]) -> str:
    """A piece of a site's text that none of the others has, of about 50 characters."""
    texts = [other.text for other in others if other != site and other.function == site.function]
    start = min((place for quote in "\"'" if (place := site.text.find(quote)) >= 0), default=-1) + 1
    for begin in range(start, max(len(site.text) - SHORT, start) + 1, 10):
        piece = site.text[begin : begin + SHORT]
        if piece.strip() and not any(piece in text for text in texts):
            return piece
    return site.text


def _statements(node: ast.AST, inside: str) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _statements(child, f"{inside}.{child.name}" if inside else child.name)
            continue
        if _raises(child) or _warns(child):
            yield inside, ast.unparse(child)
        yield from _statements(child, inside)


def _raises(node: ast.AST) -> bool:
    """Whether it raises something of its own; a bare raise hands on what came from elsewhere."""
    return isinstance(node, ast.Raise) and node.exc is not None


def _warns(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    called = node.value.func
    if isinstance(called, ast.Name):
        return called.id in ("warn", "rank_zero_warn")
    teller = getattr(called, "value", None)
    return isinstance(called, ast.Attribute) and called.attr in TELLING and getattr(teller, "id", "") in TELLERS
