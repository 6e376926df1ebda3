"""Each kind of unit has a folder with a file for each and one place that knows them all: nothing lies there unused.

Units in no order, rules, shims, rewards and checks, are found by their files. Where an order counts, or one line is
said of each before its file is read, there is a table.
"""

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest
from support.sources import tree_of

import grpo_recipes
from grpo_recipes.cli.main import COMMANDS
from grpo_recipes.contract.host.engines import ENGINES
from grpo_recipes.rewards.catalog import shipped_rewards
from grpo_recipes.rules.catalog import rules
from grpo_recipes.schemas.models import sections
from grpo_recipes.worker.preflight.start import checks
from grpo_recipes.worker.shims.catalog import known_shims

PACKAGE = Path(grpo_recipes.__file__).parent
# Proofs of a second step and of vLLM's next answer, which another part of the worker looks at.
PROOFS_OF_LATER = {"weights_move", "weights_reach_the_sampler"}
# At the losses and the weights themselves, and at the clock.
GUARDS_THAT_LOOK_ELSEWHERE = {"not_finite", "no_progress"}
# What several rewards read.
OF_SEVERAL_REWARDS = {"completion_json", "completion_text"}
# Of the format itself, no section.
NO_SECTION = {
    "fast_accept",
    "export",
    "keys",
    "models",
    "other_names",
    "released_values",
    "section",
}
# Faults of the looking itself, without which nothing can be checked.
CHECKS_OF_LOOKING = {"rows_can_be_used", "tokenizer_loads"}


def _tree(path: Path) -> ast.Module:
    return tree_of(path)


def _has(path: Path, names: Iterable[str]) -> bool:
    """Whether a file defines one of these at its top, as a value, a function or a class."""
    found = set()
    for node in _tree(path).body:
        found |= {node.name} if isinstance(node, ast.FunctionDef | ast.ClassDef) else set()
        found |= {getattr(one, "id", "") for one in node.targets} if isinstance(node, ast.Assign) else set()
    return not found.isdisjoint(names)


def _units(folder: str, *names: str) -> set[str]:
    """The files of a folder that are units: they define one of these names, or their own."""
    files = (PACKAGE / folder).glob("[!_]*.py")
    return {path.stem for path in files if path.stem != "catalog" and _has(path, names or (path.stem,))}


def _in_table(file: str, *tables: str) -> set[str]:
    """The modules in a file's tables of these names: its elements, or the keys of a mapping."""
    tables_of_file = (
        node.value.keys if isinstance(node.value, ast.Dict) else [node.value]
        for node in ast.walk(_tree(PACKAGE / file))
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") in tables
    )
    parts = (part for table in tables_of_file for part in table if part is not None)
    return {node.id for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)}


KINDS = {
    "rules": (_units("rules", "ID"), {rule.name for rule in rules()}),
    "shims": (_units("worker/shims", "before_trainer", "on_trainer"), set(known_shims())),
    "rewards": (_units("rewards") - OF_SEVERAL_REWARDS, set(shipped_rewards())),
    "proofs": (
        _units("worker/proofs", "prove"),
        _in_table(
            "worker/proofs/catalog.py", "FIRST_STEP", "WITH_VLLM", "WITHOUT_VLLM", "WITHOUT_PADDING", "WITH_IMAGES"
        )
        | PROOFS_OF_LATER,
    ),
    "proofs of turns": (
        _units("worker/proofs/of_turns", "prove"),
        _in_table("worker/callbacks/proof_callback.py", "OF_TURNS"),
    ),
    "guards": (
        _units("worker/guards", "ID"),
        _in_table("worker/callbacks/guard_callback.py", "builders") | GUARDS_THAT_LOOK_ELSEWHERE,
    ),
    "checks of a preflight": (
        _units("worker/preflight/checks", "ID"),
        {one.__name__.rpartition(".")[2] for one in checks()} | CHECKS_OF_LOOKING,
    ),
    "engines": (_units("engines", "ENGINE"), set(ENGINES)),
    "commands": (_units("cli/commands"), set(COMMANDS)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_unit_of_a_folder_is_known_and_every_known_one_is_there(kind: str) -> None:
    there, known = KINDS[kind]
    assert there == known
    assert len(there) > 2


def test_every_shim_is_asked_for_by_a_rule() -> None:
    asked = {key.partition(".")[2] for rule in rules() for key in rule.owns if key.startswith("shims.")}
    assert asked == set(known_shims())


def test_every_section_of_a_recipe_has_its_file() -> None:
    files = {model.__module__.rpartition(".")[2] for model in sections().values()}
    assert files == {path.stem for path in (PACKAGE / "schemas").glob("[!_]*.py")} - NO_SECTION
