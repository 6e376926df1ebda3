"""A model's code runs only as planned: it is checked again right before it runs, in each process.

transformers copies a model's code files into its own folder, which this user owns, and runs the copies. The copies
are checked, so a file that changes after the plan was allowed, or between two checks, does not run.
"""

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.regular_file import file_sha256
from grpo_recipes.contract.plan import CODE_OF, Plan
from grpo_recipes.worker._shared.replacing import Refused, replace


def run_only_planned_code(plan: Plan) -> None:
    """Makes transformers load hub code only at the planned commits, and run only a folder's planned files.

    Both raise Refused.
    """
    from transformers import dynamic_module_utils as modules

    local: set[str] = set()
    replace(modules, "get_cached_module_file", _pin_revisions(plan, modules.get_cached_module_file, local))
    replace(modules, "get_class_in_module", _class_checked(plan, modules, local))


def _pin_revisions(plan: Plan, get: Callable[..., str], local: set[str]) -> Callable[..., str]:
    pins = {key.removeprefix(CODE_OF): at for key, at in plan.verified.items() if key.startswith(CODE_OF)}

    @functools.wraps(get)
    def fetch_as_planned(repository: Any, *arguments: Any, **keywords: Any) -> str:
        if os.path.isdir(repository):
            module = get(repository, *arguments, **keywords)
            local.add(os.path.normpath(module))
            return module
        if str(repository) in pins:
            keywords["revision"] = pins[str(repository)]
        elif pins and str(repository) != plan.model.path:
            raise Refused.of(
                f"model: {plan.model.path} has its code in {repository}",
                because="this was unknown when the run's code was allowed, so that code was not confirmed",
                fix="launch it again with access to the hub; grpo-run then asks about that code as well",
            )
        return get(repository, *arguments, **keywords)

    return fetch_as_planned


def _class_checked(plan: Plan, modules: Any, local: set[str]) -> Callable[..., Any]:
    """Returns a get_class_in_module that raises Refused for a copied file whose content is not in the plan."""
    run = modules.get_class_in_module

    @functools.wraps(run)
    def check_and_run(class_name: str, module_path: Any, *arguments: Any, **keywords: Any) -> Any:
        if os.path.normpath(module_path) in local:
            for file in _files(modules, module_path):
                _check(plan, file)
        return run(class_name, module_path, *arguments, **keywords)

    return check_and_run


def _files(modules: Any, module_path: Any) -> Iterator[Path]:
    """Yields a module's copy and the copies that it imports from the same folder."""
    module = Path(modules.HF_MODULES_CACHE) / module_path
    yield module
    yield from map(Path, modules.get_relative_import_files(module))


def _check(plan: Plan, file: Path) -> None:
    known = set(plan.model.files.values())
    if plan.model.source == "hub":
        known |= _of_the_hub(plan, file.name)
    if known and file_sha256(file) not in known:
        raise Refused.of(
            f"model: code in {file.name} has changed since the plan was made",
            because=f"its sha256 is {file_sha256(file)[:12]}, which no file of {plan.model.path} had",
            fix="restore the file, or plan again; new code must be allowed",
        )
    # Python would run a compiled copy with matching time and size instead of the checked file.
    for copy in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        copy.unlink(missing_ok=True)


def _of_the_hub(plan: Plan, name: str) -> set[str]:
    """Returns the digest of the hub's file of this name: a model with new tokens has a copy in the run folder."""
    from transformers.utils import cached_file

    commit = plan.model.commit or plan.model.revision
    path = cached_file(plan.model.path, name, revision=commit, _raise_exceptions_for_missing_entries=False)
    return {file_sha256(Path(path))} if path is not None else {"none"}
