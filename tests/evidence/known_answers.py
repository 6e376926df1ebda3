"""What an answer may name: ids of rules, facts, proofs, guards and of preflight, names of shims."""

import ast
import re
from functools import cache
from pathlib import Path

import grpo_recipes
from grpo_recipes.explain.pages import known_ids
from grpo_recipes.rules.catalog import rules

PACKAGE = Path(grpo_recipes.__file__).parent
KINDS = ("schema", "yaml", "fact", "rule", "stack", "shim", "proof", "guard", "preflight")
REASONS = ("owned", "never", "later", "wrong", "note")
NEEDS_WHY = frozenset({"schema", "preflight", *REASONS})
ID = re.compile(r"[A-Z]{3}\d{3}")


def ids_in(folder: Path) -> dict[str, str]:
    """Every id that the modules of a folder assign, with the first line of the module; nothing is imported."""
    found: dict[str, str] = {}
    for file in sorted(folder.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        title = (ast.get_docstring(tree) or "").partition("\n")[0]
        constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        found |= {value: title for value in constants if isinstance(value, str) and ID.fullmatch(value)}
    return found


@cache
def _worker_ids() -> dict[str, str]:
    return ids_in(PACKAGE / "worker")


@cache
def _shims() -> frozenset[str]:
    return frozenset(file.stem for file in (PACKAGE / "worker" / "shims").glob("*.py"))


def fault(answer: str, why: str) -> str:
    """What is wrong with an answer such as "rule BAT001" or "shim no_bnb, rule SHM001", "" when nothing is."""
    for part in answer.split(","):
        kind, _, name = part.strip().partition(" ")
        if kind not in (*KINDS, *REASONS):
            return f"{kind!r} is no kind of answer"
        if kind in NEEDS_WHY and not why.strip():
            return f"{kind!r} needs a why"
        if kind in REASONS and name:
            return f"{kind!r} names nothing, and {name!r} is named"
        if not _exists(kind, name):
            return f"there is no {kind} {name!r}"
    return ""


def _exists(kind: str, name: str) -> bool:
    if kind in REASONS or (kind in ("schema", "preflight") and not name):
        return True
    if kind == "rule":
        return name in {rule.id for rule in rules()}
    if kind == "shim":
        return name in _shims()
    if kind in ("proof", "guard", "preflight"):
        prefix = {"proof": "PRF", "guard": "GRD", "preflight": "PFL"}[kind]
        return name.startswith(prefix) and name in _worker_ids()
    return name in known_ids()
