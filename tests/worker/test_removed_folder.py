"""A run folder that is removed while the real trainer works in it does not come back with checkpoints alone."""

from collections.abc import Callable
from pathlib import Path

import pytest
from worker_runs import Changes, planned_reward, train

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("warm")]
REWARD = """
import shutil
from pathlib import Path

calls = []

def away(completions, **kwargs):
    calls.append(1)
    folder = Path(__file__).parents[2]
    while len(calls) == 3 and folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
    return [float(len(str(one)) % 3) for one in completions]
"""


def test_nothing_is_saved_into_a_folder_that_is_gone(
    make_run: Callable[..., Path], make_plan: Callable[..., Changes], sha256_of_text: Callable[[str], str]
) -> None:
    reward = planned_reward(
        "rewards.py:away", kind="python", name="away", path="rewards.py", sha256=sha256_of_text(REWARD)
    )
    arguments = {"save_strategy": "steps", "save_steps": 1, "logging_steps": 100}
    folder = make_run(make_plan(rewards=[reward], arguments=arguments), user={"rewards.py": REWARD})
    code, output = train(folder)
    assert code == 1, output
    assert f"error: {folder}: the run folder is gone\n  = because: it was removed" in output
    assert "Traceback" not in output
    assert not folder.exists()
