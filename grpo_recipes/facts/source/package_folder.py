"""Where an installed package lies."""

import sys
from pathlib import Path


def package_folder(package: str) -> Path | None:
    """The folder of an installed top-level package, None when there is none; nothing is imported."""
    # importlib.util.find_spec would answer for a module of this process that may come from elsewhere.
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(package, None)
        except (ImportError, ValueError, AttributeError):
            continue
        if spec is not None:
            is_package = spec.origin is not None and spec.origin.endswith("__init__.py")
            return Path(spec.origin).parent if spec.origin is not None and is_package else None
    return None
