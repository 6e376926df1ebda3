"""Counts rooms, imports and circles of a checkout: `python benchmarks/house.py [FOLDER]`, this one without FOLDER.

A room is a folder with modules in it. An arrow is a room that imports another one; a circle is a set of modules, or of
rooms, that reach each other. That arrows point downwards is held by tests/test_layers.py.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

PACKAGE = "grpo_recipes"
Graph = Mapping[str, set[str]]


def modules(package: Path) -> dict[str, Path]:
    """The modules by their dotted names; a folder's __init__ has the folder's."""
    named = {".".join(path.relative_to(package.parent).with_suffix("").parts): path for path in package.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


def imports(path: Path, known: Iterable[str]) -> set[str]:
    """The modules among the known that a file imports, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return names & set(known)


def circles(graph: Graph) -> list[set[str]]:
    """The sets of nodes that reach each other (Tarjan's strongly connected components), largest first."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for below in sorted(graph.get(node, ())):
            if below not in index:
                visit(below)
                low[node] = min(low[node], low[below])
            elif below in stack:
                low[node] = min(low[node], index[below])
        if low[node] == index[node]:
            place = stack.index(node)
            found.append({*stack[place:]})
            del stack[place:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted((one for one in found if len(one) > 1), key=len, reverse=True)


def folded(graph: Graph, depth: int | None) -> dict[str, set[str]]:
    """The graph of the folders that the modules lie in; depth: how many names of a path count, None for all."""
    rooms: dict[str, set[str]] = defaultdict(set)
    for module, below in graph.items():
        here = _room(module, depth)
        rooms[here] |= {_room(one, depth) for one in below} - {here}
    return rooms


def _room(module: str, depth: int | None) -> str:
    parts = module.split(".")
    return ".".join(parts[:-1] if depth is None else parts[:depth])


def main() -> None:
    """Prints the counts."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[1])
    known = modules(root / PACKAGE)
    graph = {name: imports(path, known) - {name} for name, path in known.items() if path.name != "__init__.py"}
    graph = {name: below & graph.keys() for name, below in graph.items()}
    rooms, top = folded(graph, None), folded(graph, 2)
    sizes = {room: sum(1 for module in graph if _room(module, None) == room) for room in rooms}
    lines = {name: known[name].read_text(encoding="utf-8").count("\n") for name in graph}
    print(f"{'modules':<34}{len(graph):>6}")
    print(f"{'lines of the longest':<34}{max(lines.values()):>6}")
    print(f"{'rooms':<34}{len(rooms):>6}")
    print(f"{'rooms of more than 15 modules':<34}{sum(size > 15 for size in sizes.values()):>6}")
    print(f"{'arrows between rooms':<34}{sum(map(len, rooms.values())):>6}")
    print(f"{'arrows between top-level rooms':<34}{sum(map(len, top.values())):>6}")
    for what, counted in (("modules", graph), ("rooms", rooms), ("top-level rooms", top)):
        found = circles(counted)
        print(f"{f'{what} in circles':<34}{sum(map(len, found)):>6}   {'; '.join(', '.join(sorted(c)) for c in found)}")


if __name__ == "__main__":
    sys.setrecursionlimit(10_000)
    main()
