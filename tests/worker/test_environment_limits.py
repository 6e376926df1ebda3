"""What a method of an environment is told to have failed by."""

import asyncio
import inspect
import time
from pathlib import Path
from typing import Any

import pytest

from grpo_recipes.contract.plan_sections import EnvironmentClass
from grpo_recipes.worker.tools.environments import environment_factory
from grpo_recipes.worker.tools.tally import Tally
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
