"""Engines: each keeps the contract, one that is not there is an error, and nobody else knows one by name."""

import ast
import dataclasses
import inspect
import json
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, get_args

import pytest
from support.sources import tree_of

import grpo_recipes
from grpo_recipes.cli.launching import launch_run
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.host.engines import ENGINES, SECTIONS, Asked, EngineKind, engine_for
from grpo_recipes.contract.plan import Plan, to_json
from grpo_recipes.engines.base import Engine, Prepare, engine_of
from grpo_recipes.launch.progress import View
from grpo_recipes.render.run_folder import write_run_folder
from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.stack.target import parse_target

PACKAGE = Path(grpo_recipes.__file__).parent
RECIPE = "recipes/quickstart.yaml"
# Where an engine has its own: the list, the modules, the recipe's section and the rules that judge it, what a recipe
# may ask sbatch for, the end of a job inside the run, and its id there.
KNOWING = (
    "contract/host/engines.py",
    "contract/run_record.py",
    "engines/",
    "schemas/",
    "rules/",
    "facts/sbatch_options.py",
    "worker/",
)


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_has_all_that_the_contract_asks_for(name: str, plan: Plan) -> None:
    engine = engine_of(_started_by(plan, name))
    for function, told in inspect.getmembers(Engine, inspect.isfunction):
        if not function.startswith("_"):
            own = inspect.signature(getattr(engine, function)).parameters
            assert list(own) == [one for one in inspect.signature(told).parameters if one != "self"], function


def test_what_a_recipe_asks_for_is_an_engine_and_a_section_is_the_recipes() -> None:
    assert set(get_args(Asked)) <= set(ENGINES)
    assert set(SECTIONS) <= set(Recipe.model_fields)
    assert engine_for("local", 1) == "local"
    assert engine_for("local", 2) == "by_hand"
    assert engine_for("slurm", 2) == "slurm"


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A plan of the quickstart."""
    stack, _ = parse_target("tested,gpus=0")
    return plan_of(resolve(RECIPE, stack))


def _started_by(plan: Plan, name: str) -> Plan:
    return dataclasses.replace(plan, world=dataclasses.replace(plan.world, engine=name))


def test_an_engine_that_is_not_there_starts_nothing(plan: Plan, tmp_path: Path, grpo_run: Callable[..., Any]) -> None:
    folder = Path(write_run_folder(_started_by(plan, "nomad"), str(tmp_path / "run"), "recipe: 1\n"))
    with pytest.raises(Refusal, match="engine 'nomad', which this grpo-run does not support"):
        launch_run(_started_by(plan, "nomad"), str(folder), as_json=False)
    answer = grpo_run(str(folder), "--resume")
    assert (answer.code, answer.out) == (2, "")
    assert "engine 'nomad', which this grpo-run does not support" in answer.err
    assert not (folder / "train.log").exists()


class Stub(Engine):
    """An engine that writes down what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.active = False
        self.typed: list[str] = []

    def files(self, plan: Plan) -> dict[str, str]:
        return {"stub.job": f"a job of {plan.name}\n"}

    def start(self, plan: Plan, folder: str, *, resume: bool, echo: TextIO, view: View, prepare: Prepare) -> int:
        self.asked += [f"start {resume}", *prepare()]
        return 75

    def follow(self, folder: str, *, echo: TextIO, view: View) -> int:
        self.asked.append("follow")
        return 3

    def is_active(self, folder: str) -> bool:
        return self.active

    def shares(self, plan: Plan) -> list[dict[str, str]]:
        return [{}]

    def commands(self, plan: Plan, folder: str, *, resume: bool) -> list[str]:
        return self.typed


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Stub:
    """An engine of one module and one line in the list, and nothing else."""
    made = Stub()
    module = types.ModuleType("grpo_recipes.engines.stub")
    module.ENGINE = made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(ENGINES, "stub", EngineKind(scripts=("stub.job",)))
    return made


def test_another_engine_is_a_module_and_a_line(stub: Stub, plan: Plan, tmp_path: Path) -> None:
    planned = _started_by(plan, "stub")
    folder = write_run_folder(planned, str(tmp_path / "run"), "recipe: 1\n", engine_of(planned).files(planned))
    assert (Path(folder) / "stub.job").read_text() == f"a job of {plan.name}\n"
    assert json.loads(to_json(planned))["world"]["engine"] == "stub"
    assert launch_run(planned, folder, as_json=False, prepare=lambda: ["prepared"]) == 75
    assert launch_run(planned, folder, as_json=False, resume=True) == 75
    assert launch_run(planned, folder, as_json=False, follow=True) == 3
    assert stub.asked == ["start False", "prepared", "start True", "follow"]
    assert not (Path(folder) / "train.log").exists()


def test_what_a_person_types_is_printed(
    stub: Stub, plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.typed = ["one machine", "another one"]
    launch_run(_started_by(plan, "stub"), str(tmp_path), as_json=False)
    assert capsys.readouterr().out == "one machine\nanother one\n"


def test_a_run_that_is_active_is_followed(stub: Stub, plan: Plan, tmp_path: Path, grpo_run: Callable[..., Any]) -> None:
    stub.active = True
    folder = write_run_folder(_started_by(plan, "stub"), str(tmp_path / "run"), "recipe: 1\n")
    assert grpo_run(folder, "--resume").code == 3
    assert stub.asked == ["follow"]


def _names_in(tree: ast.AST) -> list[str]:
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            found.append(node.value)
        for field in ("id", "attr", "name", "module", "arg"):
            value: Any = getattr(node, field, None)
            found += [value] if isinstance(value, str) else []
    return found


def test_no_other_module_knows_an_engine_by_name() -> None:
    knowing = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not str(path.relative_to(PACKAGE)).startswith(KNOWING)
        for name in _names_in(tree_of(path))
        if re.search(r"slurm|sbatch|by_hand(?!le)", name.lower())
    }
    assert knowing == set()
