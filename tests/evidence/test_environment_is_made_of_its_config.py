"""TOL008: what TRL makes the objects of an environment with."""

import pytest
from environment_sources import GAME
from library import Library

pytestmark = pytest.mark.stack


def test_an_object_is_made_of_its_config(library: Library) -> None:
    assert library.call("in_tools.with_environment", environment=GAME, config={"size": 3}).raised == ""


@pytest.mark.parametrize(
    ("config", "says"),
    [
        pytest.param({}, "missing 1 required positional argument: 'size'", id="one-that-it-lacks"),
        pytest.param({"size": 3, "depth": 1}, "unexpected keyword argument 'depth'", id="one-that-nobody-takes"),
    ],
)
def test_another_config_raises_when_the_trainer_is_built(
    library: Library, config: dict[str, object], says: str
) -> None:
    answer = library.call("in_tools.with_environment", environment=GAME, config=config)
    assert (answer.stage, answer.raised) == ("trainer", "TypeError")
    assert says in answer.text
