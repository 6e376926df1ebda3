"""The pins of the tested stack: constraints/cpu.txt, and the windows of pyproject.toml around them."""

import importlib.metadata
import re
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
LOCK, PROJECT = ROOT / "constraints" / "cpu.txt", ROOT / "pyproject.toml"
# Pages that name the tested releases.
STATED = (
    "README.md",
    "docs/*.md",
    "recipes/**/*.yaml",
    "grpo_recipes/rules/worker_was_tested_with_this_transformers.py",
)
# Tables that tests compare with the installed release, and that name it.
COMPARED = ("generation_keys", "schedules", "trainer_words", "vision_models")
# vLLM is not part of the tested stack without a GPU.
LOCK_WITH_VLLM = ROOT / "constraints" / "cuda.txt"


def pinned_release(package: str) -> str:
    """The release of a package that the tested stack has. Raises KeyError for another package."""
    lock = LOCK_WITH_VLLM if package == "vllm" else LOCK
    return _pins(lock)[canonicalize_name(package)]


def move_pins(package: str, version: str) -> None:
    """Writes a release of one package into the lock, the project's windows, and the pages that name it."""
    old = pinned_release(package)
    for pattern in STATED:
        for page in ROOT.glob(pattern):
            page.write_text(moved_texts(page.read_text(encoding="utf-8"), package, old, version), encoding="utf-8")
    for name in COMPARED:
        page = ROOT / "grpo_recipes" / "facts" / "data" / f"{name}.json"
        stated = re.compile(rf'(\b{re.escape(package)}(?:": "| )){re.escape(old)}\b')
        page.write_text(stated.sub(rf"\g<1>{version}", page.read_text(encoding="utf-8")), encoding="utf-8")
    pin = re.compile(rf"^{re.escape(package)}==.*$", re.MULTILINE)
    LOCK.write_text(pin.sub(f"{package}=={version}", LOCK.read_text(encoding="utf-8")), encoding="utf-8")
    PROJECT.write_text(moved_windows(PROJECT.read_text(encoding="utf-8"), package, version), encoding="utf-8")


def moved_texts(text: str, package: str, old: str, new: str) -> str:
    """A page whose ranges of tested releases, examples and tables end with the new release.

    What it says of one release, as measurements do, stays.
    """
    number = rf"{re.escape(old)}(?![\d.]*\d)"
    text = re.sub(rf"(\b{package}==|\b{package} [\d.]+ to ){number}", rf"\g<1>{new}", text)
    text = re.sub(rf"(?m)^(  {package} +){number}(?=  )", rf"\g<1>{new}", text)
    text = text.replace(f"{package} {old} (installed)", f"{package} {new} (installed)")
    if package == "trl":
        text = re.sub(rf"(?m)^(# Can be expressed by: trl .*-){number}$", rf"\g<1>{new}", text)
        text = re.sub(rf"(?m)^(# Can be expressed by: trl (?:.*, )?){number}$", rf"\g<1>{old}-{new}", text)
    return text.replace(f"-{old} |", f"-{new} |") if package == "trl" else text


def moved_windows(text: str, package: str, version: str) -> str:
    """pyproject.toml with windows that hold this release and end before the next minor one.

    A window keeps the number of parts of its lower bound, and none where it has none.
    """
    release = Version(version).release
    following = ".".join(map(str, (release[0], release[1] + 1)))

    def moved(window: re.Match[str]) -> str:
        if window[1] is None:
            return f'"{package}<{following}"'
        parts = window[1].count(".") + 1
        return f'"{package}>={".".join(map(str, release[:parts]))},<{following}"'

    return re.sub(rf'"{re.escape(package)}(?:>=([\d.]+),)?<[\d.]+"', moved, text)


def complete_lock() -> list[str]:
    """Adds what is installed beside the lock, with its release; the lines that were added."""
    pins = _pins(LOCK)
    installed = {one.name: one.version for one in importlib.metadata.distributions()}
    others = ("pip", "setuptools", "grpo-recipes")
    added = [
        f"{name}=={version}"
        for name, version in installed.items()
        if canonicalize_name(name) not in pins and canonicalize_name(name) not in others
    ]
    if added:
        head, *lines = LOCK.read_text(encoding="utf-8").splitlines()
        lines = sorted([*lines, *added], key=str.lower)
        LOCK.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return added


def _pins(lock: Path) -> dict[str, str]:
    lines = lock.read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    return {str(canonicalize_name(name)): version for name, version in pins.items()}
