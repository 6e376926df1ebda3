"""A figure of a step has its name once, in contract/metric_names.py, and TRL logs it under that name."""

import ast
from importlib.metadata import distribution
from pathlib import Path

from support.sources import nodes_of

import grpo_recipes
from grpo_recipes.contract import metric_names

PACKAGE = Path(grpo_recipes.__file__).parent
NAMES = {name: value for name, value in vars(metric_names).items() if name.isupper() and isinstance(value, str)}
NAMES |= metric_names.PHASE_SECONDS
OWN = (
    "GROUPS_WITHOUT_VARIANCE",
    "PROMPTS_ANSWERED",
    "GROUPS_REDRAWN",
    "GROUPS_LEFT",
    "REDRAWING_ROUNDS",
    "REWARD_AS_DRAWN",
    "SOURCE_REWARD",
    "SOURCE_WITHOUT_VARIANCE",
    "TOOL_FAILED_CALLS",
    "TOOL_SECONDS",
    "GENERATING_SECONDS",
    "COMPLETIONS_FAILED",
    "JUDGE_FAILED",
    "TOKENS_AFTER_END",
    *metric_names.PHASE_SECONDS,
)
# transformers adds this one to what TRL logs.
OF_TRANSFORMERS = ("GRAD_NORM",)
ROOMS = ("worker/guards", "worker/callbacks", "report", "launch")


def test_trl_logs_these_names() -> None:
    trainer = distribution("trl").locate_file("trl/trainer/grpo_trainer.py").read_text(encoding="utf-8")
    missing = [
        value
        for name, value in NAMES.items()
        if name not in (*OWN, *OF_TRANSFORMERS) and f'"{value}"' not in trainer and f'/{value}"' not in trainer
    ]
    assert missing == []


def test_nothing_else_spells_a_name() -> None:
    values = {value for value in NAMES.values() if "/" in value}
    spelled = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.value}"
        for room in ROOMS
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and node.value in values
    ]
    assert spelled == []
