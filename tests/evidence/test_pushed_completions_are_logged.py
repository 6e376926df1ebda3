"""GRP005: GRPOConfig refuses to push completions that are not logged."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(("logged", "raised"), [(True, ""), (False, "ValueError")])
def test_the_configuration_raises(library: Library, logged: bool, raised: str) -> None:
    arguments = {"log_completions_hub_repo": "owner/completions", "log_completions": logged}
    answer = library.call("config", world_size=1, arguments=arguments, read=["log_completions"])
    assert (answer.stage, answer.raised) == ("config", raised)
