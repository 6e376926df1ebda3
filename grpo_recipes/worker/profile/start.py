"""Profiles the rows of a plan: python -P worker/part.py profile.start FOLDER

FOLDER is a temporary one with the run folder of the plan; request.json in it says where the rows go.
"""

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo_recipes.contract.exits import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED
from grpo_recipes.contract.files.part_files import NOW, ended, read_request, tell, write_answer
from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.worker._shared.imports import kept_imports, quiet_libraries
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker._shared.planned import read_plan
from grpo_recipes.worker.profile.partial_rows import partial_rows
from grpo_recipes.worker.tools.tool_functions import check_tool_files
from grpo_recipes.worker.user_code.outcome import explained_reward
from grpo_recipes.worker.user_code.reward_functions import check_reward_files


def main(arguments: Sequence[str]) -> int:
    """Answers the rows, and writes the answer; 0 whatever came of it, which the answer says."""
    here = Path(arguments[0])
    write_answer(here, "profile", _answer(read_request(here), here))
    return 0


def _answer(request: dict[str, Any], here: Path) -> dict[str, Any]:
    folder = here / "run"
    plan, user, say = read_plan(folder), folder / "worker" / "user", functools.partial(tell, here)
    if plan.world.device == "cuda":  # with more the trainer would split batches over all of them
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    try:
        check_reward_files(plan.rewards, user)
        check_tool_files(plan, user)
        with partial_rows(request["partial"], request["output"]) as partial:
            with kept_imports():
                quiet_libraries()
                from grpo_recipes.worker.profile.profiled_rows import profile_rows

            shown = profile_rows(plan, folder, request["profile"], partial, say, lambda words: say(NOW + words))
            partial.finish()
    except Refused as stopped:
        return ended(EXIT_STOPPED, stopped.findings)
    except Mistake as failed:
        return ended(EXIT_FAILED, failed.findings)
    except Exception as problem:
        told = explained_reward(problem, user)
        if told is None or not isinstance(told[0], Mistake):
            raise
        return ended(EXIT_FAILED, told[0].findings)
    return ended(EXIT_DONE, shown=shown)
