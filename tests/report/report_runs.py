"""Run folders as a worker leaves them, made without one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.plans import small_plan

from grpo_recipes.contract.plan import PlannedSetting, to_json

DONE = {"run": 1, "status": "completed", "step": 40, "max_steps": 40, "train_wall_s": 65.0, "train_cpu_s": 60.5}


def step(number: int, **figures: Any) -> dict[str, Any]:
    """A step of a run that goes well, with changes."""
    return {
        "event": "step",
        "step": number,
        "time": 1_700_000_000.0 + number,
        "loss": 0.01,
        "grad_norm": 0.5,
        "reward": number / 100,
        "reward_std": 0.25,
        "rewards/format/mean": 0.5,
        "rewards/format/std": 0.1,
        "rewards/answer/mean": number / 200,
        "rewards/answer/std": 0.2,
        "frac_reward_zero_std": 0.25,
        "entropy": 1.5,
        "completions/mean_length": 30.0,
        "completions/min_length": 10.0,
        "completions/max_length": 50.0,
        "completions/clipped_ratio": 0.125,
        "step_time": 2.5,
        "memory_bytes": 3 << 30,
        **figures,
    }


def completions(number: int, *rows: dict[str, Any]) -> dict[str, Any]:
    """A line of completions.jsonl."""
    return {"event": "completions", "step": number, "time": 1.0, "rows": list(rows)}


def row(text: str = "4", total: float | None = 1.0, **more: Any) -> dict[str, Any]:
    """A completion as the worker writes it."""
    given = {"format": total, "answer": 0.0}
    known = {"prompt": "2+2=", "completion": text, "rewards": given, "reward": total, "advantage": 0.5}
    return {**known, "tokens": 3, "ended": "eos", **more}


def made(
    place: Path,
    *,
    steps: list[dict[str, Any]] | None = None,
    kept: list[dict[str, Any]] | None = None,
    values: dict[str, Any] | None = None,
    events: list[dict[str, Any]] | None = None,
    **record: Any,
) -> Path:
    """A run folder. values: of its plan, by their keys; record: what run.json has beside that of a run that is done."""
    place.mkdir(parents=True)
    rows = [
        PlannedSetting(key, value, "recipe.yaml:3:1", "a reason", key, "experiment")
        for key, value in (values or {}).items()
    ]
    (place / "plan.json").write_text(to_json(replace(small_plan(), settings=tuple(rows))))
    (place / "launch.sh").write_text("")
    (place / "run.json").write_text(json.dumps({**DONE, **record}))
    lines = [step(number) for number in range(1, 41)] if steps is None else steps
    (place / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines, *(events or [])]))
    if kept is not None:
        (place / "completions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    return place
