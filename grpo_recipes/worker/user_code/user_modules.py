"""The user's files of the run folder as modules: each is read once, and the bytes that were checked are what runs."""

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
from grpo_recipes.worker._shared.inputs import Refused

# What of a plan names a user's file. target: "file.py:name".
Pinned = Reward | Tool | EnvironmentClass | Rollout


def checked_sources(pinned: Pinned, user: Path, kind: str = "reward") -> dict[Path, bytes]:
    """The own file of what is pinned, which comes first, and those that it imports, as they were planned.

    user: the folder of the copies. kind: what it is, for what is said. Raises Refused for a file that is missing or
    has another digest; runs none.
    """
    own = Path(pinned.target.rpartition(":")[0]).name
    digests = {own: pinned.sha256, **pinned.imports}
    what = f"{kind} {pinned.name}"
    return {user / name: _checked(what, user / name, sha256) for name, sha256 in digests.items()}


def user_module(sources: dict[Path, bytes]) -> ModuleType:
    """The first of the files as a module of a name that no package has; loaded once for all that is in it."""
    path = next(iter(sources))
    name = f"grpo_run_user_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    _Beside.add(sources)
    spec = spec_from_file_location(name, path, loader=_Source(sources[path], path))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses and pickle look their module up by name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]  # half of a module is none
        raise
    return module


def _checked(what: str, path: Path, sha256: str | None) -> bytes:
    try:
        content = path.read_bytes()
    except OSError:
        raise Refused.of(f"{what}: {path} does not exist") from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise Refused.of(
            f"{what}: {path} changed since the plan was made",
            because=f"its sha256 is {found[:12]}, the plan has {str(sha256)[:12]}",
            fix="plan again, and look at what changed",
        )
    return content


class _Source(SourceLoader):
    """Runs bytes that are in memory; what lies at the path by now is not read, nor is a compiled copy of it."""

    def __init__(self, content: bytes, path: Path) -> None:
        self._content, self._path = content, path

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_data(self, path: Any) -> bytes:
        return self._content


class _Beside(MetaPathFinder):
    """Finds the checked files before anything of that name that is installed, as Python does for a script."""

    def __init__(self) -> None:
        self.sources: dict[str, tuple[Path, bytes]] = {}

    @classmethod
    def add(cls, sources: dict[Path, bytes]) -> None:
        """Makes the files importable, all but the first, which is the user's function's own."""
        finder = next((one for one in sys.meta_path if isinstance(one, cls)), None)
        if finder is None:
            finder = cls()
            sys.meta_path.insert(0, finder)
        finder.sources |= {path.stem: (path, content) for path, content in list(sources.items())[1:]}

    def find_spec(self, fullname: str, path: Iterable[str] | None, target: Any = None) -> ModuleSpec | None:
        """The spec of a checked file, None for every other module."""
        if fullname not in self.sources:
            return None
        file, content = self.sources[fullname]
        return spec_from_file_location(fullname, file, loader=_Source(content, file))


# Code of a model runs only as it is in the plan: looked at again right before it runs, in each process.
#
# transformers copies the files of a model's code into its own folder, which belongs to this user, and runs the copies.
# These are what is looked at, so a file that is changed after the plan was allowed, or between two looks, does not run.


def run_only_planned_code(plan: Plan) -> None:
    """Has transformers take code of the hub at the planned commits alone, and run no other file of a folder than the
    planned ones. Both raise Refused.
    """
    from transformers import dynamic_module_utils as modules

    local: set[str] = set()
    modules.get_cached_module_file = _pinned(plan, modules.get_cached_module_file, local)
    modules.get_class_in_module = _class_checked(plan, modules, local)


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


def _class_checked(plan: Plan, modules: Any, local: set[str]) -> Callable[..., Any]:
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
