"""Runs a trained model on a request: python -P worker/part.py answering.start FOLDER

FOLDER is a temporary folder with a request.json; the answer is written there. Without a prompt or rows, a conversation
is read from stdin.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.exchange_files import read_request
from grpo_recipes.contract.files.folder_files import read_text
from grpo_recipes.contract.read_plan import from_json
from grpo_recipes.worker._shared.imports import keep_imports, quiet_libraries
from grpo_recipes.worker.tools.tool_functions import check_tool_files
from grpo_recipes.worker.user_code.reward_call import answer_of
from grpo_recipes.worker.user_code.reward_functions import check_reward_files


def main(arguments: Sequence[str]) -> int:
    """Generates and writes the answer. Returns 0 even on failure, which the answer reports."""
    here = Path(arguments[0])
    request = read_request(here)
    folder = Path(request["run"])
    plan, user = from_json(read_text(folder, "plan.json")), folder / "worker" / "user"

    def answers() -> dict[str, Any]:
        check_reward_files(plan.rewards, user)
        check_tool_files(plan, user)
        with keep_imports():
            quiet_libraries()
            from grpo_recipes.worker.answering.answered_rows import answer_rows, converse

        if "prompt" not in request:
            with os.fdopen(os.dup(0)) as requests, open(os.devnull) as nothing:
                os.dup2(nothing.fileno(), 0)  # a tool that reads stdin must not consume a message
                return converse(plan, folder, here, requests, greedy=request["greedy"])
        asked = {name: request[name] for name in ("prompt", "rows", "greedy", "base", "held_out")}
        return answer_rows(plan, folder, here / "scratch", **asked)

    return answer_of(answers, here, user)
