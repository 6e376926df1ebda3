"""The time limit of a Slurm job is in the unit that was meant.

sbatch reads a number as minutes, and two numbers as minutes and seconds: `time: 8` and `time: "8:00"` both end the job
after eight minutes. Slurm requeues the job a few times, then the training stops, usually before its first checkpoint.
The rule warns of less than 30 minutes, and of 48, 72 or 96 minutes, which are whole days in hours, if the run has more
than 50 steps. In the form with three numbers no limit is too short: "00:08:00" is eight minutes.
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import is_slurm

ID = "WLD015"
TIME, STEPS = "slurm.time", "GRPOConfig.max_steps"
SHORT_MINUTES, DAYS_IN_HOURS, FEW_STEPS = 30, (48, 72, 96), 50


def check(context: Context) -> Iterator[Finding]:
    steps = context.value(STEPS)
    if not is_slurm(context) or (isinstance(steps, int) and 0 < steps <= FEW_STEPS):
        return
    match = re.fullmatch(r"(\d+)(:\d+)?", str(context.value(TIME)))
    if match is None:
        return
    number = int(match[1])
    if 0 < number < SHORT_MINUTES or number in DAYS_IN_HOURS:
        yield context.finding(
            f"slurm.time {match[0]} is {number} minutes",
            TIME,
            "sbatch reads one number as minutes, and two as minutes and seconds",
            fix=f'time: "{number:02}:00:00" for {number} hours, "{number // 60:02}:{number % 60:02}:00" for minutes',
            severity="warning",
        )
