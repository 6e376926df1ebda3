"""Imports the user's files of the run folder: each file is read once, and exactly the checked bytes run."""

import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from grpo_recipes.contract.files.regular_file import file_sha256
from grpo_recipes.contract.plan import CODE_OF, Plan, Reward
from grpo_recipes.contract.plan_sections import EnvironmentClass, Rollout, Tool
from grpo_recipes.worker._shared.replacing import Refused, replace

# The plan's entries that name a user's file. target: "file.py:name".
Pinned = Reward | Tool | EnvironmentClass | Rollout


def check_sources(pinned: Pinned, user: Path, kind: str = "reward") -> dict[Path, bytes]:
    """Returns the entry's own file, which comes first, and those that it imports, as planned.

    user: the folder of the copies. kind: of the entry, for messages. Raises Refused for a file that is missing or has a
    different digest; runs none.
    """
    own = Path(pinned.target.rpartition(":")[0]).name
    digests = {own: pinned.sha256, **pinned.imports}
    what = f"{kind} {pinned.name}"
    return {user / name: _read_checked(what, user / name, sha256) for name, sha256 in digests.items()}


def user_module(sources: dict[Path, bytes]) -> ModuleType:
    """Returns the first of the files as a module whose name no package has; it is loaded once."""
    path = next(iter(sources))
    name = f"grpo_run_user_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    _Beside.add(sources)
    spec = spec_from_file_location(name, path, loader=_Source(sources[path], path))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses and pickle look up their module by name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]  # half a module must not stay
        raise
    return module


def _read_checked(what: str, path: Path, sha256: str | None) -> bytes:
    try:
        content = path.read_bytes()
    except OSError:
        raise Refused.of(f"{what}: {path} does not exist") from None
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise Refused.of(
            f"{what}: {path} changed since the plan was made",
            because=f"its sha256 is {digest[:12]}, the plan has {str(sha256)[:12]}",
            fix="review the changes, and plan again",
        )
    return content


class _Source(SourceLoader):
    """Runs bytes from memory; neither the file at the path nor a compiled copy of it is read."""

    def __init__(self, content: bytes, path: Path) -> None:
        self._content, self._path = content, path

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_data(self, path: Any) -> bytes:
        return self._content


class _Beside(MetaPathFinder):
    """Finds the checked files before installed modules of the same name, as Python does for a script."""

    def __init__(self) -> None:
        self.sources: dict[str, tuple[Path, bytes]] = {}

    @classmethod
    def add(cls, sources: dict[Path, bytes]) -> None:
        """Makes the files importable, except the first, which belongs to the user's function."""
        finder = next((entry for entry in sys.meta_path if isinstance(entry, cls)), None)
        if finder is None:
            finder = cls()
            sys.meta_path.insert(0, finder)
        finder.sources |= {path.stem: (path, content) for path, content in list(sources.items())[1:]}

    def find_spec(self, fullname: str, path: Iterable[str] | None, target: Any = None) -> ModuleSpec | None:
        """Returns the spec of a checked file, None for every other module."""
        if fullname not in self.sources:
            return None
        file, content = self.sources[fullname]
        return spec_from_file_location(fullname, file, loader=_Source(content, file))


# A model's code runs only as planned: it is checked again right before it runs, in each process.
#
# transformers copies a model's code files into its own folder, which this user owns, and runs the copies. The copies
# are checked, so a file that changes after the plan was allowed, or between two checks, does not run.


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
