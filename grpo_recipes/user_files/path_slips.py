"""What was meant for a shell or for YAML and became a part of a path."""

import re

_VARIABLE = r"\$\{?\w+\}?|%\w+%"
_CURLY = "\u2018\u2019\u201c\u201d\u00ab\u00bb"


def path_slip(value: str) -> str | None:
    """Why a path that is not there is not what was meant: a variable, or quotes that are none to YAML."""
    if variable := re.search(_VARIABLE, value):
        return f"{variable[0]} stays as it is, variables are not expanded"
    if quote := next((character for character in value if character in _CURLY), None):
        return f"the quote {quote} is a part of it, YAML's own are \" and '"
    return None
