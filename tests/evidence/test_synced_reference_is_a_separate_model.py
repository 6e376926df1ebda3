"""GRP002: an adapter, or no penalty, has no reference model that could follow, and none follows every 0 steps."""

import pytest
from library import Library

pytestmark = pytest.mark.stack

SYNC = {"sync_ref_model": True, "beta": 0.1}


def test_with_an_adapter_it_raises_after_loading(library: Library) -> None:
    answer = library.call("build", arguments=SYNC, lora={"r": 4, "target_modules": ["q_proj"]})
    assert (answer.stage, answer.raised) == ("trainer", "NotImplementedError")


@pytest.mark.parametrize("lora", [None, {"r": 4, "target_modules": ["q_proj"]}], ids=["full", "lora"])
def test_without_the_penalty_it_raises_after_loading(library: Library, lora: dict[str, object] | None) -> None:
    answer = library.call("build", arguments={"sync_ref_model": True, "beta": 0.0}, lora=lora)
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")


@pytest.mark.parametrize(("steps", "raised"), [(1, ""), (0, "ZeroDivisionError")])
def test_the_steps_between_are_at_least_one(library: Library, steps: int, raised: str) -> None:
    answer = library.call("train", arguments={**SYNC, "ref_model_sync_steps": steps})
    assert answer.raised == raised
