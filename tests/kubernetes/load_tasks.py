"""Loads tasks with SkyPilot's own loader, in its environment; starts nothing and asks no server.

python load_tasks.py FILE ...   prints for each file what SkyPilot made of it, or its refusal, as JSON.
"""

import json
import sys

import sky


def loaded(file: str) -> dict[str, object]:
    """What is asked for, in SkyPilot's words."""
    try:
        task = sky.Task.from_yaml(file)
    except Exception as problem:
        return {"refused": str(problem)}
    resources = list(task.resources)
    return {
        "nodes": task.num_nodes,
        "accelerators": sorted(
            f"{name}:{count}" for one in resources for name, count in (one.accelerators or {}).items()
        ),
        "spot": {one.use_spot for one in resources} == {True},
        "recovery": resources[0].job_recovery,
    }


if __name__ == "__main__":
    print(json.dumps({file: loaded(file) for file in sys.argv[1:]}))
