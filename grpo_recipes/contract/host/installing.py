"""The command that installs an extra of grpo-recipes, or other packages, for the Python that is running."""

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

DISTRIBUTION = "grpo-recipes"
ROOT = Path(__file__).parents[3]
"""The folder of the package: a checkout, an environment's packages, or the archive of a run folder."""

_SHEBANG = 512


def install_command(
    packages: Sequence[str], extra: str = "", others: Sequence[str] = (), *, is_alone: bool = False
) -> str:
    """Returns a command to paste, such as "pip install '/home/me/grpo-run[train]'".

    packages: the missing ones. extra: the extra that has them; it is installed from where grpo-recipes was: a checkout,
    a wheel, a repository or an index. If that is gone, the packages are named, in the releases of the extra. others:
    packages outside the extra. is_alone: only the packages, where the whole extra would replace installed releases.
    """
    words = _of_the_origin(extra) if extra and not is_alone else None
    return " ".join([_installer(), *(shlex.quote(word) for word in [*(words or _bounded(packages, extra)), *others])])


def install_there(packages: Sequence[str], extra: str) -> str:
    """Returns the same for a machine that is not this one, in words: only there the origin is known."""
    return f"install {DISTRIBUTION}[{extra}] there" if extra else f"pip install {shlex.join(packages)}"


def _installer() -> str:
    """The command of pip, or of uv without it, that installs where this Python looks for packages."""
    python = shlex.quote(sys.executable)
    if find_spec("pip") is None:
        with_uv = shutil.which("uv") is not None or find_spec("ensurepip") is None
        return f"uv pip install --python {python}" if with_uv else f"{python} -m ensurepip && {python} -m pip install"
    by_name, folder = shutil.which("pip"), os.path.dirname(sys.executable)
    if by_name is None or os.path.dirname(by_name) != folder:
        return f"{python} -m pip install"
    # The script of an environment that was moved still names the old Python.
    named = rb"[!\s'\"]" + re.escape(os.fsencode(folder)) + b"/"
    is_of_this = re.search(named, Path(by_name).read_bytes()[:_SHEBANG])
    return "pip install" if is_of_this else f"{python} -m pip install"


def _of_the_origin(extra: str) -> list[str] | None:
    """What to give to pip for an extra; None if nothing is installed, or its origin is gone.

    Source: direct_url.json, which pip and uv write next to the metadata, but not for a package from an index (PEP 610).
    """
    if _is_checkout(ROOT):
        return ["-e", f"{ROOT}[{extra}]"]
    from importlib import metadata  # a plan shows words for other machines, which need none

    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    if text is None:
        return [f"{DISTRIBUTION}[{extra}]"]
    origin = json.loads(text)
    url, repository = str(origin["url"]), origin.get("vcs_info")
    if repository is not None:
        url = f"{repository['vcs']}+{url}@{repository['commit_id']}"
    elif url.startswith("file:"):
        path = Path(unquote(urlsplit(url).path))
        return [f"{path}[{extra}]"] if path.is_file() or _is_checkout(path) else None
    folder = f"#subdirectory={origin['subdirectory']}" if origin.get("subdirectory") else ""
    return [f"{DISTRIBUTION}[{extra}] @ {url}{folder}"]


def _is_checkout(folder: Path) -> bool:
    try:
        text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    except OSError:
        return False
    return f'\nname = "{DISTRIBUTION}"\n' in text


def _bounded(packages: Sequence[str], extra: str) -> list[str]:
    """The packages with the extra's bounds; bare names if grpo-recipes is not installed."""
    from importlib import metadata

    try:
        required = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        required = []
    form = re.compile(rf"""(([\w.-]+)[^;]*?) *; *extra == ['"]{extra}['"]""")
    bounds = {match[2]: match[1] for requirement in required if (match := form.fullmatch(requirement))}
    return [bounds.get(package, package) for package in packages]
