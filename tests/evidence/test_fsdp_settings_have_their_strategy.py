"""FSD002: accelerate reads settings of FSDP only for its FSDP."""

import pytest
from library import Library, environment_of_ranks

pytestmark = pytest.mark.stack


def test_other_strategies_ignore_the_settings_without_a_word(library: Library) -> None:
    environment = {**environment_of_ranks(), "FSDP_RESHARD_AFTER_FORWARD": "false", "FSDP_VERSION": "2"}
    answer = library.call("distributed_types", environment=environment, ranks=2)
    assert (answer.result, answer.raised, answer.warnings) == ([["MULTI_CPU", 2]] * 2, "", [])
