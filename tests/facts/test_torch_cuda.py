"""Which CUDA a torch is built for, and which driver that needs."""

import pytest

from grpo_recipes.facts.released.requirements import cuda_of, driver_for, newest_cuda_of, newest_torch_for
from grpo_recipes.facts.released.shipped import final_releases
from grpo_recipes.stack.stack import Stack


def stack(torch: str | None, built_for: str | None = None, declared: bool = True) -> Stack:
    return Stack(None, {"torch": torch}, None, None, declared, "test", torch_cuda=built_for)


@pytest.mark.parametrize(
    ("torch", "cuda"),
    [
        ("2.13.0", "13.0"),
        ("2.10.0", "12.8"),
        ("2.13.0+cu126", "12.6"),
        ("2.4.1+cu118", "11.8"),
        ("2.13.0+cpu", ""),
        ("2.13.0+rocm7.1", None),
        ("99.0", None),
        (None, None),
    ],
)
def test_a_declared_torch_is_that_of_its_local_version_or_of_pypi(torch: str | None, cuda: str | None) -> None:
    assert cuda_of(stack(torch)) == cuda


def test_the_installed_torch_is_what_it_says_itself() -> None:
    assert cuda_of(stack("2.13.0", "12.6", declared=False)) == "12.6"
    assert cuda_of(stack("2.13.0", "", declared=False)) == ""
    assert cuda_of(stack("2.13.0", None, declared=False)) is None, "a build that does not say may be anybody's"


def test_every_released_torch_from_2_1_on_has_its_cuda() -> None:
    known = [one for one in final_releases("torch") if tuple(map(int, one.split(".")[:2])) >= (2, 1)]
    assert [one for one in known if not cuda_of(stack(one))] == []


@pytest.mark.parametrize(("cuda", "driver"), [("11.8", 450), ("12.1", 525), ("13.2", 580), ("14.0", None)])
def test_a_cuda_needs_the_driver_of_its_first_number(cuda: str, driver: int | None) -> None:
    assert driver_for(cuda) == driver


@pytest.mark.parametrize(
    ("driver", "cuda", "torch"),
    [("580.65.06", "13", ">=2.15.0,<2.16.0"), ("535.104.05", "12", ">=2.8.0,<2.11.0"), ("470.42", "11", None)],
)
def test_a_driver_runs_the_newest_cuda_that_it_is_new_enough_for(driver: str, cuda: str, torch: str | None) -> None:
    assert newest_cuda_of(driver) == cuda
    assert newest_torch_for(driver) == torch
    assert newest_cuda_of("390.1") is None
