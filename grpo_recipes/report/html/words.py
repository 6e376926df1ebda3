"""Texts and numbers of a run, as a page shows them."""

import json
import os
import re
from collections.abc import Mapping, Sequence

from grpo_recipes.contract.secrets.redact import redact, redact_value

GIB = 2**30
LONGEST = 600
NO_FOLDER = "\0"
"""For a text that may have the path of the run folder in it as any other text."""
_ABSOLUTE = re.compile(r"(?<![\w/:.~{}$)>-])/(?:[\w.@+~,=-]+/)+[\w.@+~,=-]+")
_KEPT_PARTS = 2


def shown_text(text: object, folder: str, most: int = LONGEST) -> str:
    """A text of a run: without secrets and steering characters, with no path that says where on a machine it lies.

    folder: the run folder, absolute; what lies in it is named from there. most: characters, more are cut.
    """
    plain = redact(text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, default=str))
    plain = plain[: 4 * most].replace(f"{folder}{os.sep}", "").replace(folder, os.path.basename(folder))
    plain = _ABSOLUTE.sub(_relative, plain)
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."


def _relative(found: "re.Match[str]") -> str:
    parts = found[0].split("/")
    return "…/" + "/".join(parts[-_KEPT_PARTS:])


def shown_value(key: str, value: object, folder: str) -> str:
    """A planned value beside its key, as YAML would have it on one line."""
    redacted = redact_value({key: value})
    own = next(iter(redacted.values())) if isinstance(redacted, Mapping) else None
    return shown_text(own, folder)


def figure(value: float | None, digits: int = 4) -> str:
    """So many digits, more before the point; "-" for nothing."""
    if value is None:
        return "-"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.{digits}g}"


def percent(value: float | None) -> str:
    """A share: 12 %, and 0.4 % below one."""
    if value is None:
        return "-"
    return f"{value * 100:.1f} %" if 0 < abs(value) < 0.0995 or 0.9905 < abs(value) < 1 else f"{value * 100:.0f} %"


def gib(size: object) -> str:
    """Bytes as GiB; "-" for what is none."""
    if isinstance(size, bool) or not isinstance(size, int | float):
        return "-"
    return f"{size / GIB:.2f} GiB" if size >= GIB / 100 else f"{size / 2**20:.1f} MiB"


def joined(parts: Sequence[str]) -> str:
    """Parts that are not empty, in one line."""
    return " · ".join(part for part in parts if part)
