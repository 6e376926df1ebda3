"""What a method of an environment is told to have failed by, and a class that no file of the user has."""

import asyncio
import inspect
import time
from pathlib import Path
from typing import Any

import pytest
from support.plans import small_plan

from grpo_recipes.contract.plan import to_json
from grpo_recipes.contract.plan_sections import EnvironmentClass, Package
from grpo_recipes.contract.read_plan import from_json
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.tools.environments import environment_factory
from grpo_recipes.worker.tools.tally import Tally
from grpo_recipes.worker.tools.tool_functions import check_tool_files
from grpo_recipes.worker.tools.tool_process import ToolFailed


class Slow:
    """Its tools take their time, or raise."""

    def reset(self, **_: Any) -> None:
        """Takes none."""

    def waits(self) -> None:
        """Waits."""
        time.sleep(600)

    async def waits_too(self) -> None:
        """Waits, asynchronously."""
        await asyncio.sleep(600)

    def raises(self) -> None:
        """Raises."""
        raise ValueError("no")


@pytest.mark.parametrize(("method", "by"), [("waits", "time"), ("waits_too", "time"), ("raises", "")])
def test_a_call_that_was_ended_for_its_time_says_so(method: str, by: str, tmp_path: Path) -> None:
    planned = EnvironmentClass("Slow", "slow.py:Slow", "slow.py", "", {}, {}, 0.1)
    one = environment_factory(planned, Slow, Tally(), tmp_path)()
    began = time.monotonic()
    with pytest.raises(ToolFailed) as failed:
        found = getattr(one, method)()
        asyncio.run(_awaited(found)) if inspect.isawaitable(found) else None
    assert failed.value.by == by
    assert time.monotonic() - began < 300


async def _awaited(found: Any) -> Any:
    return await found


def test_the_plan_of_an_older_release_with_a_class_of_trl_is_read_and_not_played(tmp_path: Path) -> None:
    of_trl = EnvironmentClass(
        "OpenRewardSpec", "trl.experimental.openreward:OpenRewardSpec", "", None, package=Package("trl", "1.16.0", None)
    )
    plan = from_json(to_json(small_plan(environment_class=of_trl)))
    assert plan.environment_class == of_trl
    with pytest.raises(Refused, match="OpenRewardSpec is not a class in a file of yours") as refused:
        check_tool_files(plan, tmp_path)
    assert "docs/environments.md" in str(refused.value)
