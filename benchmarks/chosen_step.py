"""Simulates runs that learn nothing, to see how often the best of their evaluations is called better, and by how much.

    python benchmarks/chosen_step.py [--runs 1000]

Prints a table of benchmarks/intervals.md with the functions that grpo-run calls.
"""

import argparse
import itertools
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from grpo_recipes.contract.plan import Evaluation, Plan, Reward
from grpo_recipes.contract.run_record import RunRecord
from grpo_recipes.contract.run_verdict import verdicts
from grpo_recipes.worker.completions.figures import JudgedRow, change, cross_validated, summary

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.plans import small_plan

EVALUATIONS, ROWS = (1, 5, 20, 50), (8, 20, 50, 200)


def judged(numbers: random.Random, chances: list[float]) -> list[JudgedRow]:
    """One completion of each row, which is right with the row's chance."""
    return [
        JudgedRow(row, "", "", {"right": float(numbers.random() < chance)}, {}) for row, chance in enumerate(chances)
    ]


def simulated(numbers: random.Random, plan: Plan, rows: int, evaluations: int) -> tuple[bool, float, float]:
    """Whether a run is called better, and by how much the chosen figure and the cross-validated one are too high."""
    chances = [numbers.random() for _ in range(rows)]
    truth = sum(chances) / rows
    before = judged(numbers, chances)
    each = {step: judged(numbers, chances) for step in range(1, evaluations + 1)}
    rewards = {step: sum(one.rewards["right"] or 0.0 for one in completions) for step, completions in each.items()}
    step = max(rewards, key=lambda step: rewards[step])
    figures = {"step": step, **summary(each[step], plan), "change": change(before, each[step], plan, 1)}
    evaluation: dict[str, object] = {"before": {"step": 0, **summary(before, plan)}, "after": figures}
    apart: Any = figures
    if evaluations > 1:
        apart = cross_validated(each, before, plan, 1)
        evaluation |= {"best": figures, "chosen_from": [*each], "cross_validated": apart}
    record = RunRecord(status="completed", step=step, final_step=step, evaluation=evaluation)
    is_better = any(verdict.id == "VRD001" for verdict in verdicts(record))
    return is_better, rewards[step] / rows - truth, apart["reward"] - truth


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="how often the best of many evaluations is called better by chance")
    parser.add_argument("--runs", type=int, default=1000, help="simulated for each line")
    runs = parser.parse_args().runs
    plan = small_plan(rewards=(Reward("shipped", "right", "exact_match", 1.0),))
    plan = replace(plan, evaluation=Evaluation(plan.data, True, 0, True, 8, {}))
    print("| evaluations | rows | called better | its figure is too high by | on rows that did not choose |")
    print("|---|---|---|---|---|")
    for evaluations, rows in itertools.product(EVALUATIONS, ROWS):
        numbers = random.Random(evaluations * 1000 + rows)
        each = [simulated(numbers, plan, rows, evaluations) for _ in range(runs)]
        better, high, apart = (sum(column) / runs for column in zip(*each, strict=True))
        print(f"| {evaluations} | {rows} | {better:.1%} | {high:+.3f} | {apart:+.3f} |", flush=True)


if __name__ == "__main__":
    main()
