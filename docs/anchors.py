"""The anchors of headings for Sphinx, in a module of their own: processes of a build find functions by their module."""

import re


def anchor(heading: str) -> str:
    """The anchor of a heading, as code hosts make it; of a rule its id alone, which its page has as an HTML anchor."""
    rule = re.match(r"([A-Z]{3}\d{3}): ", heading)
    return rule[1].lower() if rule else re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
