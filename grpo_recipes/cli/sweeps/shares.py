"""What the runs of a sweep that go on at once are started with, so that none takes the devices of another."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence

from grpo_recipes.contract.plan import Plan
from grpo_recipes.engines.catalog import engine_of


def shares_of(plans: Sequence[Plan]) -> list[Mapping[str, str]]:
    """Variables of the environment, one for each run at a time; of runs with other needs, what the greediest leaves.

    Empty where nothing can be started from here.
    """
    # All plans of a world need the same devices, and to look for them takes a moment.
    kinds = {repr((plan.world, plan.vllm and plan.vllm.server)): plan for plan in plans}
    each: list[list[Mapping[str, str]]] = [list(engine_of(plan).shares(plan)) for plan in kinds.values()]
    return min(each, key=len, default=[])


@contextlib.contextmanager
def seen_with(share: Mapping[str, str]) -> Iterator[None]:
    """Lets this process see what a run with this share will see."""
    before = {name: os.environ.get(name) for name in share}
    os.environ.update(share)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
