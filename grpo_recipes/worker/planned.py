"""plan.json as the worker sees it. The worker has no default for anything: a missing key stops it."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from grpo_recipes.contract.files.bounded_json import read_json
from grpo_recipes.contract.integrity.run_folder import plan_fault
from grpo_recipes.contract.plan import (
    PLAN_FORMAT,
    Arguments,
    Data,
    Evaluation,
    Expect,
    Guards,
    Model,
    Reward,
    Tokenizer,
    Vllm,
    VllmServer,
    World,
)
from grpo_recipes.worker.stopped import Stopped

Section = TypeVar("Section")


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of plan.json that the worker carries out."""

    world: World
    arguments: Arguments
    model: Model
    tokenizer: Tokenizer
    data: Data
    rewards: tuple[Reward, ...]
    evaluation: Evaluation | None
    guards: Guards
    shims: dict[str, Any]
    expect: Expect
    smoke: bool
    vllm: Vllm | None
    verified: dict[str, Any]
    accept_drift: bool


def extended_model_folder(folder: Path) -> Path:
    """Where the model with added tokens lies in a run folder."""
    return folder / "extended_model"


def model_path(plan: Plan, folder: Path) -> str:
    """What trainer and vLLM load: the planned model, or the one of the run folder that has the added tokens."""
    return str(extended_model_folder(folder)) if plan.tokenizer.add_tokens else plan.model.path


def model_revision(plan: Plan) -> str | None:
    """Of the hub's model that is loaded, None for a folder."""
    return None if plan.tokenizer.add_tokens else plan.model.commit or plan.model.revision


def read_plan(folder: Path) -> Plan:
    """The plan of a run folder. Raises Stopped if it is missing, of another format or lacks a key."""
    path = folder / "plan.json"
    try:
        content = read_json(folder, "plan.json")
    except (OSError, ValueError) as problem:
        raise Stopped(
            f"{path}: the plan cannot be read\n  = because: {problem}\n"
            f"  = fix: bring it back from a copy; recipe.yaml beside it trains anew, in another folder"
        ) from problem
    if not isinstance(content, dict) or content.get("plan") != PLAN_FORMAT:
        raise Stopped(f"{path}: not a plan of format {PLAN_FORMAT}, the only one that this worker carries out")
    keys = _only(content, [field.name for field in dataclasses.fields(Plan)], "")
    held_out = keys["evaluation"]
    return Plan(
        world=_section(World, keys["world"], "world"),
        arguments=_section(Arguments, keys["arguments"], "arguments"),
        model=_section(Model, keys["model"], "model"),
        tokenizer=_section(Tokenizer, keys["tokenizer"], "tokenizer"),
        data=_section(Data, keys["data"], "data"),
        rewards=tuple(_section(Reward, reward, f"rewards[{place}]") for place, reward in enumerate(keys["rewards"])),
        evaluation=None if held_out is None else _evaluation(held_out),
        guards=_section(Guards, keys["guards"], "guards"),
        shims=dict(keys["shims"]),
        expect=_section(Expect, keys["expect"], "expect"),
        smoke=bool(keys["smoke"]),
        vllm=None if keys["vllm"] is None else _vllm(keys["vllm"]),
        verified=dict(keys["verified"]),
        accept_drift=bool(keys["accept_drift"]),
    )


def stop_at_changed_plan(folder: Path) -> None:
    """Raises Stopped for a plan.json that is not the one that was written into the run folder."""
    because = plan_fault(folder)
    if because is not None:
        raise Stopped(
            f"{folder / 'plan.json'}: the plan was changed after it was written\n  = because: {because}\n"
            f"  = fix: bring it back from a copy; recipe.yaml beside it trains anew, in another folder"
        )


def _evaluation(content: dict[str, Any]) -> Evaluation:
    return dataclasses.replace(
        _section(Evaluation, content, "evaluation"),
        data=_section(Data, content.get("data"), "evaluation.data"),
    )


def _vllm(content: dict[str, Any]) -> Vllm:
    vllm, server = _section(Vllm, content, "vllm"), content["server"]
    return vllm if server is None else dataclasses.replace(vllm, server=_section(VllmServer, server, "vllm.server"))


def _section(kind: type[Section], content: Any, where: str) -> Section:
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    return kind(**_only(content, names, where))


def _only(content: Any, names: list[str], where: str) -> dict[str, Any]:
    """The named keys of a mapping; keys that only the planner reads are left out."""
    if not isinstance(content, dict):
        raise Stopped(f"plan.json: {where or 'the whole'} is not a mapping")
    missing = [f"{where}.{name}" if where else name for name in names if name not in content]
    if missing:
        raise Stopped(f"plan.json lacks {', '.join(missing)}\n  = because: the worker decides nothing by itself")
    return {name: content[name] for name in names}
