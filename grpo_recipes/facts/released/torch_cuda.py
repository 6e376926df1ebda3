"""The CUDA that torch was built for, and the driver that this CUDA needs."""

import re

from grpo_recipes.facts.released.shipped import table
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.stack.stack import Stack

TABLE = "torch_cuda"
_LOCAL = r"cu(\d+)(\d)"


def cuda_of(stack: Stack) -> str | None:
    """The CUDA of the stack's torch, as "13.0"; "" for a build without; None where that is not known.

    Of a torch that is not installed here by the end of its version, as in 2.13.0+cu130 and 2.13.0+cpu, and without one
    that of PyPI's build.
    """
    if stack.torch_cuda is not None or not stack.declared:
        return stack.torch_cuda
    release, _, local = (stack.version("torch") or "").partition("+")
    if local:
        built_for = re.fullmatch(_LOCAL, local)
        return f"{built_for[1]}.{built_for[2]}" if built_for else "" if local == "cpu" else None
    return next(
        (row["cuda"] for row in table(TABLE)["built_for"] if release and is_within(release, row["torch"])), None
    )


def driver_for(cuda: str) -> int | None:
    """The oldest driver, by its first number, that runs programs built for a CUDA; None where that is not known."""
    found = table(TABLE)["driver_of_cuda"].get(cuda.partition(".")[0])
    return None if found is None else int(found)


def newest_cuda_of(driver: str) -> str | None:
    """The newest CUDA, by its first number, that a driver runs; None where it is older than all that are known."""
    number = int(driver.partition(".")[0])
    fitting = [cuda for cuda, oldest in table(TABLE)["driver_of_cuda"].items() if oldest <= number]
    return max(fitting, key=int, default=None)


def newest_torch_for(driver: str) -> str | None:
    """The newest torch on PyPI that a driver runs, as a window such as ">=2.8.0,<2.11.0"; None without one."""
    cuda = newest_cuda_of(driver)
    rows = [row for row in table(TABLE)["built_for"] if cuda and int(row["cuda"].partition(".")[0]) <= int(cuda)]
    return str(rows[-1]["torch"]) if rows else None
