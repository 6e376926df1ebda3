"""Finds a file of PYTHONPATH that is imported instead of an installed package or a module of Python itself."""

import os
import sys
import traceback
from importlib import metadata

from grpo_recipes.contract.findings.finding import Finding, mistake


def foreign_module(problem: BaseException) -> Finding | None:
    """The finding about a file that was imported, or where the exception was raised; None without such a file."""
    folders = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if not folders:
        return None
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    frames = traceback.walk_tb(problem.__traceback__)
    files |= {str(frame.f_globals.get("__name__")): frame.f_code.co_filename for frame, _ in frames}
    packages = metadata.packages_distributions()
    for folder in folders:
        for name, file in files.items():
            if file is None or os.path.dirname(file) not in (folder, os.path.join(folder, name)):
                continue
            owners = [metadata.distribution(owner) for owner in packages.get(name, ())]
            is_installed_there = folder in (str(owner.locate_file("")) for owner in owners)
            if (owners or name in sys.stdlib_module_names) and not is_installed_there:
                instead = f"package {owners[0].name}" if owners else "module of Python itself"
                return mistake(
                    f"{file} is imported instead of the {instead}",
                    because=f"the variable PYTHONPATH names {folder}",
                    fix="unset PYTHONPATH, or rename that file",
                )
    return None
