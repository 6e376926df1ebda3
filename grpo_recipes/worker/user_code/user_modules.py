"""The user's files of the run folder as modules: each is read once, and the bytes that were checked are what runs."""

import hashlib
import sys
from collections.abc import Iterable
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from grpo_recipes.worker._shared.inputs import Refused


class Pinned(Protocol):
    """What of a plan names a user's file: a reward, a tool. target: "file.py:name"."""

    @property
    def name(self) -> str:
        """What the plan calls it."""

    @property
    def target(self) -> str:
        """The file and the name in it."""

    @property
    def sha256(self) -> str | None:
        """The digest of the file."""

    @property
    def imports(self) -> dict[str, str]:
        """The digests of the files that it imports, by their names."""


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
