"""What the real GRPOConfig refuses, grpo-run refuses; what grpo-run refuses besides is listed, with the reason.

10,000 random configurations for each of five releases (`--fuzz full`), 300 for three of them otherwise. 500 (60) more
are around fields that matter only under conditions, and are judged by the release's GRPOTrainer with a small model,
with and without an adapter.
"""

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from differential import Judged, judged, judged_with_conditions
from environments import NEWEST

pytestmark = pytest.mark.fuzz

QUICK = ("0.14.0/4.48.3", "0.19.1/4.52.4", NEWEST)
FULL = ("0.15.2/4.48.3", "0.19.1/4.52.4", "0.23.1/4.57.6", "0.26.2/4.57.6", NEWEST)
SHOWN = 5


@cache
def extra_refusals() -> dict[str, str]:
    """Ids that may refuse what the constructor takes, each with its reason."""
    text = Path(__file__).with_name("extra_refusals.yaml").read_text(encoding="utf-8")
    listed: dict[str, str] = yaml.safe_load(text)
    return listed


def _shown(found: list[Judged]) -> list[tuple[Any, ...]]:
    """The first few, with all that is needed to see them again."""
    return [
        (one.configuration.processes, one.configuration.fields, one.refused, one.raised, one.plan_raised)
        for one in found[:SHOWN]
    ]


@pytest.mark.parametrize("stack", tuple(dict.fromkeys(QUICK + FULL)))
def test_grpo_run_and_the_release_agree(
    stack: str, is_full: bool, seed: int, real_releases: Any, tmp_path: Path
) -> None:
    if stack not in (FULL if is_full else QUICK):
        pytest.skip("not among the releases that were asked for")
    _agree(stack, judged(stack, 10_000 if is_full else 300, seed, real_releases, tmp_path))


@pytest.mark.parametrize("stack", tuple(dict.fromkeys(QUICK + FULL)))
def test_grpo_run_and_the_trainer_agree_on_conditions(
    stack: str, is_full: bool, seed: int, real_releases: Any, tmp_path: Path
) -> None:
    if stack not in (FULL if is_full else QUICK):
        pytest.skip("not among the releases that were asked for")
    _agree(stack, judged_with_conditions(stack, 500 if is_full else 60, seed, real_releases, tmp_path))


def _agree(stack: str, found: list[Judged]) -> None:
    both = [one for one in found if one.raised and one.refused]
    neither = [one for one in found if not one.raised and not one.refused]
    alone = Counter(rule for one in found if not one.raised for rule in one.refused)
    print(
        f"\n{stack}: {len(found)} configurations, {len(both)} refused by both, {len(neither)} by neither, "
        f"{sum(not one.raised and bool(one.refused) for one in found)} by grpo-run alone: {dict(alone)}"
    )
    missed = [one for one in found if one.raised and not one.refused and not one.is_translated]
    assert _shown(missed) == [], f"{len(missed)} that the release refuses are not refused"
    assert _shown([one for one in found if one.plan_raised]) == [], "plans that the release refuses"
    others = [one for one in found if not one.raised and one.refused and set(one.refused) - set(extra_refusals())]
    assert _shown(others) == [], "refused by an id that is not listed in extra_refusals.yaml"
    assert min(len(both), len(neither)) > len(found) // 50, "the draw is no test any more"


def test_what_may_refuse_more_exists_and_says_why() -> None:
    from grpo_recipes.explain.explain import known_ids

    assert set(extra_refusals()) - set(known_ids()) == set()
    assert [rule for rule, reason in extra_refusals().items() if len(reason) < 20] == []
