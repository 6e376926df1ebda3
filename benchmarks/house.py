"""Counts the size and the structure of the package; `--lower` lowers the budgets of rooms in tests/budget.yaml.

A room is a folder of the package, or of the worker, with all modules in it. A circle is a group of folders, or of
modules, that import each other.
"""

import argparse
import ast
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
BUDGET = ROOT / "tests" / "budget.yaml"


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


def room_lines(checkout: Path = ROOT) -> dict[str, int]:
    """The lines of code of each room: api, cli, ..., worker/callbacks."""
    lines: Counter[str] = Counter()
    for name, text in modules(checkout).items():
        folders = name.split(".")[1:-1] or [name.split(".")[1]]
        lines["/".join(folders[: 2 if folders[0] == "worker" else 1])] += code_lines(text)
    return dict(sorted(lines.items()))


def lower(budget: Path = BUDGET) -> None:
    """Lowers each room's budget to its lines, and removes rooms that are gone. Raises SystemExit for a larger room."""
    lines = room_lines()
    text = budget.read_text(encoding="utf-8")
    for room, most in yaml.safe_load(text)["rooms"].items():
        if lines.get(room, 0) > most:
            raise SystemExit(f"{room} has {lines[room]} lines, and its budget is {most}")
        entry = f"  {room}: {most}\n"
        text = text.replace(entry, f"  {room}: {lines[room]}\n" if room in lines else "")
    budget.write_text(text, encoding="utf-8")


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
    parser.add_argument("--lower", action="store_true", help="lower the budgets of rooms that became smaller")
    asked = parser.parse_args()
    print(table(asked.checkout), end="")
    if asked.lower:
        lower()


if __name__ == "__main__":
    main()
