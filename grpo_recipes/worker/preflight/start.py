"""Makes a preflight of a plan: python -P worker/part.py preflight.start FOLDER

FOLDER is a temporary one with the run folder of the plan; request.json in it says how closely to look.
"""

from collections.abc import Sequence
from pathlib import Path

from grpo_recipes.contract.files.part_files import read_request, write_answer
from grpo_recipes.contract.findings.finding import as_record
from grpo_recipes.worker._shared.imports import kept_imports, quiet_libraries
from grpo_recipes.worker._shared.planned import read_plan
from grpo_recipes.worker.preflight._shared.seen import Options
from grpo_recipes.worker.tools.tool_functions import check_tool_files
from grpo_recipes.worker.user_code.reward_functions import check_reward_files


def main(arguments: Sequence[str]) -> int:
    """Looks, checks, and writes the answer; 0 whatever it found, since only the caller knows what that means."""
    here = Path(arguments[0])
    folder = here / "run"
    plan = read_plan(folder)
    options = Options(batch=plan.batch, **read_request(here))
    check_reward_files(plan.rewards, folder / "worker" / "user")
    check_tool_files(plan, folder / "worker" / "user")
    with kept_imports():
        quiet_libraries()
        from grpo_recipes.worker.preflight.checks.catalog import faults_of
        from grpo_recipes.worker.preflight.look import look
        from grpo_recipes.worker.preflight.shown import shown

    seen = look(plan, folder, options)
    write_answer(here, {"faults": [as_record(fault) for fault in faults_of(seen)], "shown": shown(seen)})
    return 0
