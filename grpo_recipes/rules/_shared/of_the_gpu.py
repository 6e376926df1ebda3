"""Software problems that keep a machine's GPUs from training, whatever the recipe; for rules and doctor."""

from typing import NamedTuple

from grpo_recipes.facts.released.torch_cuda import cuda_of, driver_for, newest_torch_for
from grpo_recipes.stack.stack import Stack

DRIVER, TRITON = "STK016", "STK017"
"""The rules that judge a recipe by it."""


class Hindrance(NamedTuple):
    """A problem, why it matters, and how to fix it."""

    message: str
    because: tuple[str, ...]
    fix: str


def torch_and_driver(stack: Stack) -> Hindrance | None:
    """Why torch sees none of the stack's GPUs, None if it does or if unknown."""
    cuda = cuda_of(stack)
    if not stack.gpus or cuda is None:
        return None
    torch = f"torch {stack.version('torch')}"
    gpus = f"{len(stack.gpus)} GPU{'' if len(stack.gpus) == 1 else 's'}"
    if cuda == "":
        return Hindrance(
            f"{torch} is built without CUDA, but {stack.origin} has {gpus}",
            ("torch sees none of them: 'Torch not compiled with CUDA enabled'",),
            "pip install --force-reinstall torch -c constraints/cuda.txt, from an index with builds for CUDA;"
            " or launch.gpus_per_node: 0, which trains on the CPU",
        )
    needed = driver_for(cuda)
    if stack.driver is None or needed is None or _first(stack.driver) >= needed:
        return None
    window = newest_torch_for(stack.driver)
    other = f"; or 'torch{window}', PyPI's newest for this driver, as in constraints/cuda12.txt" if window else ""
    return Hindrance(
        f"{torch} is built for CUDA {cuda}, which needs a driver of {needed} or newer; this one is {stack.driver}",
        ("torch then sees no GPU: 'The NVIDIA driver on your system is too old'",),
        f"a driver of {needed} or newer{other}",
    )


def triton_compiler(stack: Stack) -> Hindrance | None:
    """What Triton lacks to compile for the stack's GPUs, None if nothing is missing or unknown."""
    if not stack.gpus:
        return None
    lacking = [
        name
        for name, there in (("a C compiler", stack.c_compiler), ("Python.h", stack.python_headers))
        if there is False
    ]
    if not lacking:
        return None
    return Hindrance(
        f"Triton needs {' and '.join(lacking)}, which {'is' if len(lacking) == 1 else 'are'} missing",
        ("Triton compiles a module of C against Python.h on each machine where it first starts a kernel",),
        "apt-get install gcc libc6-dev python3-dev, or the matching packages of other distributions",
    )


def _first(version: str) -> int:
    return int(version.partition(".")[0])
