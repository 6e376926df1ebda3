"""Code of a model runs only as it is in the plan: looked at again right before it runs, in each process.

transformers copies the files of a model's code into its own folder, which belongs to this user, and runs the copies.
These are what is looked at, so a file that is changed after the plan was allowed, or between two looks, does not run.
"""

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.digest import file_sha256
from grpo_recipes.contract.plan import CODE_OF, Plan
from grpo_recipes.worker._shared.inputs import Refused


def run_only_planned_code(plan: Plan) -> None:
    """Has transformers take code of the hub at the planned commits alone, and run no other file of a folder than the
    planned ones. Both raise Refused.
    """
    from transformers import dynamic_module_utils as modules

    local: set[str] = set()
    modules.get_cached_module_file = _pinned(plan, modules.get_cached_module_file, local)
    modules.get_class_in_module = _checked(plan, modules, local)


def _pinned(plan: Plan, get: Callable[..., str], local: set[str]) -> Callable[..., str]:
    pins = {key.removeprefix(CODE_OF): at for key, at in plan.verified.items() if key.startswith(CODE_OF)}

    @functools.wraps(get)
    def pinned(repository: Any, *arguments: Any, **keywords: Any) -> str:
        if os.path.isdir(repository):
            module = get(repository, *arguments, **keywords)
            local.add(os.path.normpath(module))
            return module
        if str(repository) in pins:
            keywords["revision"] = pins[str(repository)]
        elif pins and str(repository) != plan.model.path:
            raise Refused.of(
                f"model: {plan.model.path} has its code in {repository}",
                because="that was not known when the run was allowed, and nobody was asked",
                fix="launch it anew where the hub can be reached; it then asks for that code, too",
            )
        return get(repository, *arguments, **keywords)

    return pinned


def _checked(plan: Plan, modules: Any, local: set[str]) -> Callable[..., Any]:
    """get_class_in_module, which raises Refused for a copied file whose content the plan does not have."""
    run = modules.get_class_in_module

    @functools.wraps(run)
    def checked(class_name: str, module_path: Any, *arguments: Any, **keywords: Any) -> Any:
        if os.path.normpath(module_path) in local:
            for file in _files(modules, module_path):
                _check(plan, file)
        return run(class_name, module_path, *arguments, **keywords)

    return checked


def _files(modules: Any, module_path: Any) -> Iterator[Path]:
    """The copy of a module and of those that it imports from beside it."""
    module = Path(modules.HF_MODULES_CACHE) / module_path
    yield module
    yield from map(Path, modules.get_relative_import_files(module))


def _check(plan: Plan, file: Path) -> None:
    known = set(plan.model.files.values())
    if plan.model.source == "hub":
        known |= _of_the_hub(plan, file.name)
    if known and file_sha256(file) not in known:
        raise Refused.of(
            f"model: code in {file.name} is not what the plan was made with",
            because=f"its sha256 is {file_sha256(file)[:12]}, which no file of {plan.model.path} had",
            fix="bring the file back, or plan again; new code asks to be allowed",
        )
    # Python runs a compiled copy with the right time and size in place of what was looked at.
    for copy in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        copy.unlink(missing_ok=True)


def _of_the_hub(plan: Plan, name: str) -> set[str]:
    """The digest of the hub's own file of this name: a model with new tokens has a copy of it in the run folder."""
    from transformers.utils import cached_file

    commit = plan.model.commit or plan.model.revision
    found = cached_file(plan.model.path, name, revision=commit, _raise_exceptions_for_missing_entries=False)
    return {file_sha256(Path(found))} if found is not None else {"none"}
