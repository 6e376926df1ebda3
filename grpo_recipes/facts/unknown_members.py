"""Compares the installed trainer's source with the members that a training relies on, without importing it."""

import ast
from pathlib import Path

from grpo_recipes.contract.seams import SEAMS, Seam, seams_of
from grpo_recipes.facts.source.package_facts import package_folder

# The modules of GRPOTrainer and of the classes that it is made from.
_MODULES = (("trl", "trainer/grpo_trainer.py"), ("trl", "trainer/base_trainer.py"), ("transformers", "trainer.py"))


def unknown_members(release: str) -> list[str]:
    """Returns in words what the installed trainer lacks, or has otherwise, of a release of TRL; [] if it is not found.

    release: the installed TRL. Only the trainer's own members are compared, not those of a model or of vLLM.
    """
    methods: dict[str, ast.FunctionDef] = {}
    for package, module in _MODULES:
        folder = package_folder(package)
        path = None if folder is None else folder / module
        if path is not None and path.is_file():
            methods = _methods(path) | methods
    if not methods:
        return []
    checked = (_difference(seam, methods) for seam in seams_of(release) if seam.owner == "trainer")
    return [difference for difference in checked if difference]


def _methods(path: Path) -> dict[str, ast.FunctionDef]:
    """Returns the methods of the classes of a module. Raises SyntaxError for another source than this Python's."""
    classes = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]
    return {
        node.name: node
        for each in classes
        if each.name.endswith("Trainer")
        for node in each.body
        if isinstance(node, ast.FunctionDef)
    }


def _difference(seam: Seam, methods: dict[str, ast.FunctionDef]) -> str:
    if seam.member not in methods:
        return f"GRPOTrainer has no {seam.member}"
    others = {other.member for other in SEAMS if (other.event, other.owner) == (seam.event, seam.owner)}
    for other in others - {seam.member}:
        if other in methods:
            return f"GRPOTrainer has both {seam.member} and {other}"
    given = methods[seam.member].args
    names = {argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    missing = [name for name in seam.takes if name not in names]
    if missing and given.vararg is None and given.kwarg is None:
        return f"{seam.member} takes no {missing[0]}"
    return ""
