"""Profiles the rows of a plan: python -P worker/part.py profile.start FOLDER

FOLDER is temporary. It contains the plan's run folder, and request.json with the options.
"""

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.exchange_files import NOW, read_request, tell
from grpo_recipes.worker._shared.imports import keep_imports, quiet_libraries
from grpo_recipes.worker._shared.planned import read_plan
from grpo_recipes.worker.profile.partial_rows import partial_rows
from grpo_recipes.worker.tools.tool_functions import check_tool_files
from grpo_recipes.worker.user_code.reward_call import answer_of
from grpo_recipes.worker.user_code.reward_functions import check_judges, check_reward_files


def main(arguments: Sequence[str]) -> int:
    """Answers the rows, and writes the answer, which also reports errors. Returns 0."""
    here = Path(arguments[0])
    request, folder = read_request(here), here / "run"
    plan, user, say = read_plan(folder), folder / "worker" / "user", functools.partial(tell, here)
    if plan.world.device == "cuda":  # with several, the trainer would split batches over all of them
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]

    def rows() -> dict[str, Any]:
        check_reward_files(plan.rewards, user)
        check_judges(plan.rewards)
        check_tool_files(plan, user)
        with partial_rows(request["partial"], request["output"]) as partial:
            with keep_imports():
                quiet_libraries()
                from grpo_recipes.worker.profile.profiled_rows import profile_rows, profile_served_rows

            profile, served, now = request["profile"], request["served"], lambda words: say(NOW + words)
            if served is None:
                shown = profile_rows(plan, folder, profile, partial, say, now)
            else:
                shown = profile_served_rows(plan, folder, profile, served, partial, say, now)
            partial.finish()
        return shown

    return answer_of(rows, here, user)
