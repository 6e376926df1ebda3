"""Runs a preflight of a plan: python -P worker/part.py preflight.start FOLDER

FOLDER is temporary. It contains the plan's run folder, and request.json with the options.
"""

import importlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import grpo_recipes.worker.preflight.checks as package
from grpo_recipes.contract.files.exchange_files import read_request, write_answer
from grpo_recipes.contract.findings.finding import Finding, as_record, path_text
from grpo_recipes.contract.plan import Data, Plan
from grpo_recipes.worker._shared.imports import keep_imports, quiet_libraries
from grpo_recipes.worker._shared.planned import read_plan
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.preflight._shared.seen import Options
from grpo_recipes.worker.tools.tool_functions import check_tool_files
from grpo_recipes.worker.user_code.reward_functions import check_reward_files


def main(arguments: Sequence[str]) -> int:
    """Runs the checks and writes the answer. Always returns 0: the caller interprets the findings."""
    here = Path(arguments[0])
    folder = here / "run"
    plan = read_plan(folder)
    options = Options(batch=plan.batch, **read_request(here))
    check_reward_files(plan.rewards, folder / "worker" / "user")
    check_tool_files(plan, folder / "worker" / "user")
    with keep_imports():
        quiet_libraries()
        from grpo_recipes.worker.preflight.inspect import look
        from grpo_recipes.worker.preflight.summary import summarize

    looked = [look(source_plan, folder, options) for source_plan in _of_sources(plan)]
    faults = [faults_of(inputs) for inputs in looked]
    if plan.sources:
        blocks = [{"source": inputs.plan.data.source_name, **summarize(inputs)} for inputs in looked]
        joint_faults = [*_together(plan, looked, blocks), *_of_mixture(plan, faults)]
        answer = {"faults": [as_record(fault) for fault in joint_faults], "shown": {"counted": None, "sources": blocks}}
    else:
        answer = {"faults": [as_record(fault) for fault in faults[0]], "shown": summarize(looked[0])}
    write_answer(here, answer)
    return 0


def checks() -> list[ModuleType]:
    """Returns the checks by id: every module of checks/ with a `check`. Those that run while data is read have none."""
    names = (name.removesuffix(".py") for name in os.listdir(package.__path__[0]) if name.endswith(".py"))
    modules = (importlib.import_module(f"{package.__name__}.{name}") for name in names if name[0] != "_")
    return sorted((module for module in modules if hasattr(module, "check")), key=lambda module: module.ID)


def faults_of(inputs: Any) -> list[Finding]:
    """Returns all faults, beginning with those found while data was read. inputs: a Seen."""
    return [*inputs.faults, *(fault._replace(rule=module.ID) for module in checks() for fault in module.check(inputs))]


def _of_sources(plan: Plan) -> list[Plan]:
    """Returns a plan for each source of a mixture, with the rewards that score it."""
    return [
        replace(
            plan,
            data=data,
            sources=(data,),
            rewards=tuple(plan.rewards[index] for index in _judging(plan, data)),
        )
        for data in plan.sources
    ] or [plan]


def _judging(plan: Plan, data: Data) -> list[int]:
    return [index for index, reward in enumerate(plan.rewards) if data.source_name not in reward.not_of]


def _together(plan: Plan, looked: list[Any], blocks: list[dict[str, Any]]) -> Iterator[Finding]:
    """Yields faults of all sources' rows together, and adds each source's number of prompts to its lines."""
    from grpo_recipes.worker.data.mixture import count_prompts, together
    from grpo_recipes.worker.preflight.checks.rows_can_be_used import of_refused

    rows = [inputs.data for inputs in looked if inputs.data is not None]
    if len(rows) < len(plan.sources):
        return
    try:
        together(plan.sources, [source_rows.rows for source_rows in rows])
    except Refused as stopped:
        yield of_refused(stopped, "datasets")
    counts = count_prompts(plan, [source_rows.total for source_rows in rows])
    for block, source_rows, count in zip(blocks, rows, counts, strict=True):
        often = f"each row about {count / source_rows.total:.2g} times"
        block["lines"].insert(1, ("drawn", f"{count} of {sum(counts)} prompts, {count / sum(counts):.1%}; {often}"))


def _of_mixture(plan: Plan, faults: list[list[Finding]]) -> Iterator[Finding]:
    """Yields all sources' faults at their recipe keys: common ones once, others with the source's name."""
    reported: set[tuple[str, str]] = set()
    for index, data in enumerate(plan.sources):
        name, judging = f"datasets.{data.source_name}", _judging(plan, data)
        for fault in faults[index]:
            is_shared = all((fault.rule, fault.message) in [(x.rule, x.message) for x in others] for others in faults)
            path = fault.path
            if path[:1] == ("dataset",):
                path = ("datasets", index, *path[1:])
            elif path[:2] == ("datasets", data.source_name):
                path = ("datasets", index, *path[2:])
            elif path[:1] == ("rewards",) and len(path) > 1 and isinstance(path[1], int):
                path = ("rewards", judging[path[1]], *path[2:])
            is_named = is_shared or name in fault.message or path[:1] == ("evaluation",)
            message = fault.message if is_named else f"source {data.source_name}: {fault.message}"
            if (fault.rule, message) in reported:
                continue
            reported.add((fault.rule, message))
            yield fault._replace(message=message, path=path, key=path_text(path))
