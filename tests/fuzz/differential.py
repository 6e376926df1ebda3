"""Random configurations judged by grpo-run and by the real GRPOConfig or GRPOTrainer of a release."""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configurations import LORA, Configuration, configuration, with_conditions
from environments import ENVIRONMENTS
from laboratory import Laboratory
from small_model import write_small_model
from support.releases import TESTED

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.facts import facts_for
from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.stack.stack import Stack
from grpo_recipes.stack.target import parse_target

NEWEST_PINS = {name: TESTED[name] for name in ("trl", "transformers", "peft", "accelerate", "datasets")}
REST = "python==3.11,torch==2.13.0,bitsandbytes==0.50.2,math-verify==0.9.0,vllm==absent,liger-kernel==absent,gpus=0"


@dataclass(frozen=True, slots=True)
class Judged:
    """One configuration. refused: the ids of grpo-run's errors; planned: what it would pass to GRPOConfig, else None.

    raised: what GRPOConfig says to the configuration as it stands, "" when it takes it; plan_raised: to the plan's.
    """

    configuration: Configuration
    refused: tuple[str, ...]
    raw: dict[str, Any]
    planned: dict[str, Any] | None
    raised: str = ""
    plan_raised: str = ""

    @property
    def is_translated(self) -> bool:
        """Whether the release takes the plan, which says a value in its own way: a share of the steps as a ratio."""
        if self.planned is None or self.plan_raised:
            return False
        said = {name for name, value in self.raw.items() if self.planned.get(name) != value}
        return any(classified_fields()[name].expressed for name in said if name in classified_fields())


def declared(name: str) -> Stack:
    """A stack of stacks.json without vLLM and GPUs, as --target would declare it."""
    pins = NEWEST_PINS | {package: pin for package, pin in ENVIRONMENTS[name].pins.items() if package in NEWEST_PINS}
    stack, findings = parse_target(",".join([*(f"{package}=={pin}" for package, pin in pins.items()), REST]))
    assert stack is not None, findings
    return stack


def judged_by_grpo_run(one: Configuration, stack: Stack, folder: Path) -> Judged:
    """What resolving says, from a file as a user has it."""
    file = folder / "fuzz.yaml"
    text = json.dumps(one.recipe()).replace("Infinity", ".inf").replace("NaN", ".nan")  # JSON is YAML but for these
    file.write_text(text, encoding="utf-8")
    resolution = resolve(str(file), stack)
    refused = tuple(dict.fromkeys(f.rule for f in resolution.findings if f.severity == "error"))
    planned = None if resolution.refused else dict(plan_of(resolution).arguments.GRPOConfig)
    return Judged(one, refused, one.raw(facts_for(stack)), planned)


def judged(stack_name: str, count: int, seed: int, laboratory: Laboratory, folder: Path) -> list[Judged]:
    """So many random configurations, judged by grpo-run and by the release's GRPOConfig."""
    stack = declared(stack_name)
    draw = random.Random(f"{stack_name} {seed}")
    mine = [judged_by_grpo_run(configuration(draw, facts_for(stack)), stack, folder) for _ in range(count)]
    return _by_the_release(mine, stack_name, "constructed", laboratory, folder)


def judged_with_conditions(
    stack_name: str, count: int, seed: int, laboratory: Laboratory, folder: Path
) -> list[Judged]:
    """So many configurations around fields with conditions, judged by grpo-run and by the release's GRPOTrainer."""
    stack = declared(stack_name)
    draw = random.Random(f"conditions {stack_name} {seed}")
    model = str(write_small_model(folder / "model"))
    drawn = [with_conditions(draw, facts_for(stack), model) for _ in range(count)]
    mine = [judged_by_grpo_run(one, stack, folder) for one in drawn]
    return _by_the_release(mine, stack_name, "built", laboratory, folder)


def _by_the_release(
    mine: list[Judged], stack: str, experiment: str, laboratory: Laboratory, folder: Path
) -> list[Judged]:
    """The same with what the release raises for each and for its plan."""
    raised = _raised(stack, experiment, [(one.configuration, one.raw) for one in mine], laboratory, folder)
    plans = [(one.configuration, one.planned or {}) for one in mine]
    of_plans = _raised(stack, experiment, plans, laboratory, folder)
    return [
        Judged(one.configuration, one.refused, one.raw, one.planned, said, of_plan if one.planned is not None else "")
        for one, said, of_plan in zip(mine, raised, of_plans, strict=True)
    ]


def _raised(
    stack: str,
    experiment: str,
    cases: list[tuple[Configuration, dict[str, Any]]],
    laboratory: Laboratory,
    folder: Path,
) -> list[str]:
    file = folder / f"cases-{len(list(folder.glob('cases-*')))}.jsonl"
    lines = [[one.processes, arguments, one.model, LORA if one.lora else None] for one, arguments in cases]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    outcome = laboratory.run(stack, f"constructed_arguments.{experiment}", file=str(file), limit_s=1200)
    assert outcome.result is not None, outcome.told
    return list(outcome.result)
