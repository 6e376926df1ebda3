"""Imports the user's files of the run folder: each file is read once, and exactly the checked bytes run."""

import hashlib
import sys
from collections.abc import Iterable
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from grpo_recipes.contract.plan import Reward
from grpo_recipes.contract.plan_sections import EnvironmentClass, Rollout, Tool
from grpo_recipes.worker._shared.replacing import Refused

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
