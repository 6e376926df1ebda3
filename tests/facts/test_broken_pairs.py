"""STK013: the table of combinations that pip allows and that do not work leads to ones that do."""

import pytest

from grpo_recipes.facts.broken_pairs import ABSENT, broken_pairs
from grpo_recipes.facts.released.requirements import find_conflicts
from grpo_recipes.facts.released.shipped import final_releases, is_released
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.stack.stack import Gpu, Stack

LAB = [
    ("0.14.0", "4.48.3"),
    ("0.15.2", "4.48.3"),
    ("0.15.2", "4.49.0"),
    ("0.16.1", "4.49.0"),
    ("0.17.0", "4.51.3"),
    ("0.19.1", "4.52.4"),
    ("0.21.0", "4.55.4"),
    ("0.23.1", "4.57.6"),
    ("0.26.2", "4.57.6"),
    ("0.29.1", "4.57.6"),
    ("1.0.0", "5.23.0"),
    ("1.9.0", "5.23.0"),
    ("1.14.2", "5.23.0"),
    ("1.16.0", "5.23.0"),
]


def broken(stack: Stack) -> list[str]:
    """What happens with every recipe."""
    return [pair.happens for pair in broken_pairs() if not pair.when and pair.holds(stack)]


def stack(gpus: tuple[Gpu, ...] | None = (), **packages: str) -> Stack:
    return Stack(None, packages, gpus, None, True, "test")


@pytest.mark.parametrize(("trl", "transformers"), LAB)
def test_combinations_that_were_seen_to_train_are_not_in_the_table(trl: str, transformers: str) -> None:
    assert broken(stack(trl=trl, transformers=transformers)) == []


def test_what_is_not_known_does_not_hold() -> None:
    for pair in broken_pairs():
        assert not pair.holds(stack())
        assert not pair.holds(stack(trl="main", transformers="main"))
        if len(pair.packages) > 1:
            assert not pair.holds(stack(trl="0.15.2"))


@pytest.mark.parametrize(
    ("combination", "part"),
    [
        (stack(trl="0.14.0", transformers="4.52.4"), "log-probs"),
        (stack(trl="0.15.2", transformers="4.52.4"), "_get_train_sampler"),
        (stack(trl="0.16.1", transformers="4.57.6"), "_get_train_sampler"),
        (stack(trl="0.15.2", transformers="5.23.0"), "cannot be imported"),
        (stack(trl="0.28.0", transformers="5.23.0"), "cannot be imported"),
        (stack(peft="0.17.1", transformers="5.0.0"), "HybridCache"),
        (stack(trl="1.15.0", transformers="5.23.0"), "'NoneType' object"),
        (stack(trl="0.26.2", vllm="0.12.0"), "GuidedDecodingParams"),
    ],
    ids=lambda value: "-".join(map(str, value.packages.values())) if isinstance(value, Stack) else "",
)
def test_a_combination_is_named_once(combination: Stack, part: str) -> None:
    found = broken(combination)
    assert len(found) == 1
    assert part in found[0]


def test_a_package_that_is_absent_is_told_from_one_that_is_not_known() -> None:
    known = {"trl": "1.9.0", "transformers": "5.23.0"}
    assert broken(stack(**known)) == broken(stack(**known, requests="2.32.5")) == []
    assert "No module named 'requests'" in broken(Stack(None, {**known, "requests": None}, (), None, True, "test"))[0]


def test_without_a_gpu_is_not_with_one_or_with_an_unknown_number() -> None:
    for gpus in (None, (Gpu("H100", None, None),)):
        assert not any(pair.holds(stack(gpus, trl="1.15.0", transformers="5.23.0")) for pair in broken_pairs())


@pytest.mark.parametrize("number", range(len(broken_pairs())))
def test_each_way_out_is_a_release_that_works_and_that_pip_allows(number: int) -> None:
    pair = broken_pairs()[number]
    windows = {name: window for name, window in pair.packages.items() if window != ABSENT}
    ends = {name: [v for v in final_releases(name) if is_within(v, window)] for name, window in windows.items()}
    for way in pair.works:
        assert all(is_released(name, version) for name, version in way.items())
        for end in (0, -1):
            changed = stack()._replace(packages={name: versions[end] for name, versions in ends.items()} | way)
            if "trl" in way and end == -1:
                continue  # an old trl is a way out for the transformers of its time alone
            assert broken(changed) == [], changed.packages
            assert not pair.holds(changed)
            assert find_conflicts(changed) == []
