"""WLD003: what accelerate makes of processes that were started without a strategy, and of FSDP on the CPU."""

import pytest
from library import Library, environment_of_ranks

pytestmark = pytest.mark.stack


def test_two_launched_processes_are_one_world(library: Library) -> None:
    seen = library.call("distributed_types", environment=environment_of_ranks(), ranks=2).result
    assert seen == [["MULTI_CPU", 2]] * 2


def test_two_single_processes_train_alone(library: Library) -> None:
    assert library.call("distributed_types", environment={}, ranks=2).result == [["NO", 1]] * 2


def test_fsdp2_on_the_cpu_is_plain_ddp_without_a_word(library: Library) -> None:
    environment = {**environment_of_ranks(), "ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
    answer = library.call("distributed_types", environment=environment, ranks=2)
    assert (answer.result, answer.raised, answer.warnings) == ([["MULTI_CPU", 2]] * 2, "", [])
