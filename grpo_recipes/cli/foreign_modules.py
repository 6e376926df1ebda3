"""Finds a file that PYTHONPATH puts in the place of an installed package or of the standard library."""

import os
import sys
import traceback
from importlib import metadata

from grpo_recipes.contract.exits import Refusal


def foreign_module(problem: Exception) -> Refusal | None:
    """The message for a file that was imported, or where the exception was raised; None without such a file."""
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    frames = traceback.walk_tb(problem.__traceback__)
    files |= {str(frame.f_globals.get("__name__")): frame.f_code.co_filename for frame, _ in frames}
    packages = metadata.packages_distributions()
    for folder in map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))):
        for name, file in files.items():
            if file is None or os.path.dirname(file) not in (folder, os.path.join(folder, name)):
                continue
            owners = [metadata.distribution(owner) for owner in packages.get(name, ())]
            is_installed_there = folder in (str(owner.locate_file("")) for owner in owners)
            if (owners or name in sys.stdlib_module_names) and not is_installed_there:
                instead = f"package {owners[0].name}" if owners else "module of Python itself"
                return Refusal.of(
                    f"{file} is imported instead of the {instead}",
                    because=f"the variable PYTHONPATH names {folder}",
                    fix="unset PYTHONPATH, or rename that file",
                )
    return None
