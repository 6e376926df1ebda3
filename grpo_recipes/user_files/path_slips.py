"""What was meant for a shell or for YAML and became a part of a path."""

import re

_VARIABLE = re.compile(r"\$\{?\w+\}?|%\w+%")
_CURLY = re.compile("[\u2018\u2019\u201c\u201d\u00ab\u00bb]")


def path_slip(value: str) -> str | None:
    """Why a path that is not there is not what was meant: a variable, or quotes that are none to YAML."""
    if variable := _VARIABLE.search(value):
        return f"{variable[0]} stays as it is, variables are not expanded"
    if quote := _CURLY.search(value):
        return f"the quote {quote[0]} is a part of it, YAML's own are \" and '"
    return None
