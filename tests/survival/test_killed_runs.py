"""A run that is killed with SIGKILL, at any moment and however often, ends as if nothing had happened."""

from collections.abc import Callable
from pathlib import Path

import pytest
from killed_runs import KINDS, LAST, MOMENTS, NINETEEN, Chain, killed_and_resumed, left

pytestmark = pytest.mark.survival


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_and_resumed_run_ends_with_the_weights_of_one_that_was_left_alone(
    kind: str, tmp_path: Path, seed: int, is_full: bool, python: str, left_alone: Callable[[str, int], Path]
) -> None:
    steps, moments = (44, [*NINETEEN, LAST]) if is_full else (6, MOMENTS[kind])
    place = tmp_path / "killed"
    place.mkdir()

    chain = killed_and_resumed(kind, steps, place, moments, seed, python)

    say(kind, seed, chain)
    assert left(chain.folder) == left(left_alone(kind, steps)), chain.output
    missed = {moment for moment in moments if not any(moment in kill.seen for kill in chain.kills)}
    assert missed <= {"anything"}, chain.kills


def say(kind: str, seed: int, chain: Chain) -> None:
    print(f"{kind}, seed {seed}: {len(chain.kills)} kills, {chain.cpu_s:.0f} CPU s")
    for kill in chain.kills:
        print(f"  after step {kill.step}: {kill.wanted}; it was doing {', '.join(kill.seen) or 'something else'}")
