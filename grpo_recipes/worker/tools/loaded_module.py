"""The file of a tool, an environment or a rollout, run as a module; what it raises then is told with its line."""

from pathlib import Path
from types import ModuleType

from grpo_recipes.worker._shared.refused import Refused
from grpo_recipes.worker.user_code.contained import contained
from grpo_recipes.worker.user_code.outcome import raised
from grpo_recipes.worker.user_code.user_modules import user_module


def loaded_module(name: str, kind: str, sources: dict[Path, bytes]) -> ModuleType:
    """The first of the files, which is the own one of what is called so. Raises Refused for whatever it raises."""
    path = next(iter(sources))
    try:
        with contained(name, kind):
            return user_module(sources)
    except Refused:
        raise
    except Exception as problem:
        found = raised(problem, str(path.parent))
        raise Refused.of(
            f"{kind} {name}: {path.name} cannot be loaded: {found['error']}",
            because=[found["place"]] if found["place"] else [],
            fix=f"a file that can be imported: python -c 'import {path.stem}' in its folder raises the same",
        ) from problem
