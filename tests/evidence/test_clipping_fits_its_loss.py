"""LOS007: what the bounds do to the gradient of completions that the policy just wrote."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(("delta", "better"), [(None, True), (4.0, True), (1.1, True), (0.5, False)])
def test_a_low_delta_takes_the_gradient_of_better_completions(
    library: Library, delta: float | None, better: bool
) -> None:
    found = library.call("in_trl.gradient_of_better", arguments={"delta": delta}).result
    assert (found["better"] > 0) == better
    assert found["worse"] > 0


def test_cispo_multiplies_the_gradient_by_a_low_bound(library: Library) -> None:
    usual = library.call("in_trl.gradient_of_better", arguments={"loss_type": "cispo"}).result
    high = library.call("in_trl.gradient_of_better", arguments={"loss_type": "cispo", "epsilon_high": 5.0}).result
    assert usual["better"] == pytest.approx(0.2 * high["better"])


@pytest.mark.parametrize("loss", ["cispo", "sapo", "vespo"])
def test_other_bounds_change_nothing_in_a_loss_without_them(library: Library, loss: str) -> None:
    bounds = {"epsilon": 1e-6, "delta": 0.5}
    ratios = [0.5, 1.0, 3.0]
    losses = [
        library.call("in_trl.losses_at", arguments={"loss_type": loss, "epsilon_high": 5.0, **more}, ratios=ratios)
        for more in ({}, bounds)
    ]
    assert losses[0].result == losses[1].result
    clipped = library.call("in_trl.losses_at", arguments=bounds, ratios=ratios).result
    assert clipped != library.call("in_trl.losses_at", arguments={}, ratios=ratios).result


@pytest.mark.parametrize(("epsilon", "clipped"), [(0.2, True), (1.2, False)])
def test_an_epsilon_above_one_clips_no_worse_completion(library: Library, epsilon: float, clipped: bool) -> None:
    arguments = {"epsilon": epsilon, "epsilon_high": 0.2}
    low, lower = library.call("in_trl.losses_at", arguments=arguments, ratios=[0.5, 0.01], better=0.0).result
    assert (low == lower) == clipped


@pytest.mark.parametrize(("high", "clipped"), [(0.28, True), (1.28, False)])
def test_an_epsilon_high_above_one_clips_no_likely_better_completion(
    library: Library, high: float, clipped: bool
) -> None:
    asked = {"arguments": {"epsilon_high": high}, "ratios": [1.3, 2.0]}
    both, worse = (library.call("in_trl.losses_at", **asked, better=better).result for better in (1.0, 0.0))
    low, more = (one - other for one, other in zip(both, worse, strict=True))
    assert (low == pytest.approx(more)) == clipped
