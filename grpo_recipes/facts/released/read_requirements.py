"""Reads what a release declares about other packages, from the metadata of its wheel."""

from collections.abc import Mapping
from email.parser import HeaderParser

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from grpo_recipes.facts.released.requirements import EXTRAS
from grpo_recipes.stack.stack import PACKAGES

# Where grpo-run's stacks run; requirements for other systems do not matter.
_ENVIRONMENT = {
    "os_name": "posix",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "implementation_name": "cpython",
    "python_version": "3.12",
    "python_full_version": "3.12.0",
}


def declared_windows(metadata: str) -> dict[str, str]:
    """ "transformers" or "vllm for vllm" (an extra) -> specifier; packages of a stack and python alone.

    Windows that leave everything open are left out.
    """
    headers = HeaderParser().parsestr(metadata)
    windows: dict[str, str] = {}
    for extra in ("", *EXTRAS):
        for line in headers.get_all("Requires-Dist") or ():
            requirement = Requirement(line)
            name = canonicalize_name(requirement.name)
            if name in PACKAGES and str(requirement.specifier) and _applies(requirement, extra):
                key = f"{name} for {extra}" if extra else name
                parts = {*filter(None, windows.get(key, "").split(",")), *str(requirement.specifier).split(",")}
                windows[key] = ",".join(sorted(parts, reverse=True))
    python = headers.get("Requires-Python")
    return windows | ({"python": ",".join(sorted(python.replace(" ", "").split(","), reverse=True))} if python else {})


def _applies(requirement: Requirement, extra: str) -> bool:
    """Whether the requirement stands under this extra, or under none for ""."""
    if requirement.marker is None or "extra" not in str(requirement.marker):
        return not extra and (requirement.marker is None or requirement.marker.evaluate(_ENVIRONMENT))
    spellings = {extra, extra.replace("-", "_")} if extra else set[str]()
    return any(requirement.marker.evaluate({**_ENVIRONMENT, "extra": spelling}) for spelling in spellings)


def windows_by_key(releases: Mapping[str, Mapping[str, str]]) -> dict[str, list[str | None]]:
    """Key -> its window in each release, None where there is none; "python" first, extras last."""
    keys = sorted({key for windows in releases.values() for key in windows}, key=lambda k: (k != "python", " " in k, k))
    return {key: [windows.get(key) for windows in releases.values()] for key in keys}
