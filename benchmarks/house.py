"""Counts the size and the structure of the package; `--write` puts the table into docs/how-it-works.md.

A room is a folder with modules. An arrow is a room that imports another one. A circle is a group of rooms, or of
modules, that import each other.
"""

import argparse
import ast
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-it-works.md"
BEGIN, END = "<!-- house.py -->\n", "<!-- end of house.py -->\n"


def modules(checkout: Path) -> dict[str, str]:
    """The texts of the modules by their dotted names, without the `__init__.py` that only name a folder."""
    return {
        ".".join(path.relative_to(checkout).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in sorted((checkout / "grpo_recipes").rglob("*.py"))
        if path.name != "__init__.py"
    }


def code_lines(text: str) -> int:
    """Lines with code: no blank lines, comments, docstrings or imports."""
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and not line.startswith("#") and number not in left_out for number, line in lines)


def imports(text: str, known: Collection[str]) -> set[str]:
    """The modules of the package that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
    return found & {*known}


def circles(arrows: dict[str, set[str]]) -> list[set[str]]:
    """The groups whose members reach each other."""
    reached: dict[str, set[str]] = {}
    for start in arrows:
        seen: set[str] = set()
        waiting = [*arrows[start]]
        while waiting:
            place = waiting.pop()
            if place not in seen:
                seen.add(place)
                waiting += arrows.get(place, ())
        reached[start] = seen
    groups = {frozenset(b for b in reached[a] if a in reached.get(b, ())) for a in arrows if a in reached[a]}
    return [set(group) for group in groups]


def table(checkout: Path = ROOT) -> str:
    """The counts as a table."""
    texts = modules(checkout)
    between = {name: imports(text, texts) - {name} for name, text in texts.items()}
    room = {name: name.rpartition(".")[0] for name in texts}
    arrows: dict[str, set[str]] = {place: set() for place in room.values()}
    for name, imported in between.items():
        arrows[room[name]] |= {room[other] for other in imported} - {room[name]}
    rows = {
        "modules": len(texts),
        "lines of code, without blanks, comments, docstrings and imports": sum(map(code_lines, texts.values())),
        "folders with modules": len(arrows),
        "pairs of folders of which one imports the other": sum(map(len, arrows.values())),
        "import cycles between modules": len(circles(between)),
        "import cycles between folders": len(circles(arrows)),
    }
    lines = [f"| {what} | {count:,} |" for what, count in rows.items()]
    return "\n".join(["| | |", "|---|---:|", *lines]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Counts the size and the structure of the package.")
    parser.add_argument("checkout", nargs="?", type=Path, default=ROOT, help="another checkout, to compare with")
    parser.add_argument("--write", action="store_true", help="put the table into docs/how-it-works.md")
    asked = parser.parse_args()
    print(table(asked.checkout), end="")
    if asked.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
