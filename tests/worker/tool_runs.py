"""Plans of trainings with tools, and the files of the tools."""

import hashlib
from pathlib import Path
from typing import Any

from worker_runs import Changes, plan_of, planned_reward

TOOLS = '''
import os
import random
import time

def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: One.
        b: Another.

    Returns:
        Their sum, and a random digit.
    """
    digit = random.randrange(10)
    with open(f"{os.path.dirname(__file__)}/digits-{os.getpid()}", "a") as file:
        file.write(str(digit))
    return f"{a + b}{digit}"

def fail(a: int, b: int) -> int:
    """Fails.

    Args:
        a: One.
        b: Another.
    """
    raise ValueError("no")

async def later(a: int, b: int) -> int:
    """Adds two numbers, later.

    Args:
        a: One.
        b: Another.
    """
    return a + b
'''
FILE = {"tools.py": TOOLS}
# Half of the answers end so: groups vary.
EVEN = {"pattern": r"[02468]$", "full": False}


def sha256_of(text: str) -> str:
    """The digest that a plan has for a file of this text."""
    return hashlib.sha256(text.encode()).hexdigest()


def planned_tool(function: str = "add", text: str = TOOLS, **changes: Any) -> Changes:
    """A tool of a plan."""
    known = {"path": "/recipes/tools.py", "sha256": sha256_of(text), "imports": {}, "is_async": False, "timeout": 5.0}
    return {"name": function, "target": f"tools.py:{function}", **known, **changes}


def tool_plan(model: Path, rows: Path, *tools: Changes, arguments: Changes | None = None, **sections: Any) -> Changes:
    """A plan of three steps for a model that calls tools."""
    given = {"max_steps": 3, "max_completion_length": 48, "max_tool_calling_iterations": 3, **(arguments or {})}
    rewards = [planned_reward("regex_match", name="even", kwargs=EVEN)]
    return plan_of(model, rows, arguments=given, **{"tools": [*tools], "rewards": rewards, **sections})
