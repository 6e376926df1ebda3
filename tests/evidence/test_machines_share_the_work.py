"""WLD004: accelerate starts the same number of processes on each machine and drops the rest."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(("processes", "machines", "each"), [(4, 2, 2), (5, 2, 2), (16, 2, 8)])
def test_the_rest_of_a_division_is_not_started(library: Library, processes: int, machines: int, each: int) -> None:
    answer = library.call("in_launch.processes_of_each_machine", processes=processes, machines=machines)
    assert (answer.result, answer.raised) == (each, "")
