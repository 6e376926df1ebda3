"""What was meant for a shell or for YAML and became a part of a path."""

import os
import re
from itertools import islice

from grpo_recipes.nearest import nearest_words

MOST_NEIGHBOURS = 200
_VARIABLE = r"\$\{?\w+\}?|%\w+%"
_CURLY = "\u2018\u2019\u201c\u201d\u00ab\u00bb"


def near_path(value: str, path: str, *, folders: bool = False) -> str | None:
    """What a path that is not there may mean: the value with the nearest name in its folder, None without one."""
    try:
        with os.scandir(os.path.dirname(path)) as entries:
            names = [each.name for each in islice(entries, MOST_NEIGHBOURS) if each.is_dir() == folders]
    except OSError:
        return None
    name = os.path.basename(path)
    near = nearest_words(name, names, cutoff=0.75) if names else []
    return value.removesuffix("/").removesuffix(name) + near[0] if near else None


def path_slip(value: str) -> str | None:
    """Why a path that is not there is not what was meant: a variable, or quotes that are none to YAML."""
    if variable := re.search(_VARIABLE, value):
        return f"{variable[0]} stays as it is, variables are not expanded"
    if quote := next((character for character in value if character in _CURLY), None):
        return f"the quote {quote} is a part of it, YAML's own are \" and '"
    return None
