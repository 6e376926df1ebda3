"""Writes the generated pages of docs/: `make docs`, after make_examples.py."""

from pathlib import Path

import catalogue_page
import failures_page
import recipe_reference
import rule_pages


def texts() -> dict[Path, str]:
    """What the pages should hold."""
    return {**recipe_reference.texts(), **rule_pages.texts(), **catalogue_page.texts(), **failures_page.texts()}


if __name__ == "__main__":
    for place, text in texts().items():
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")
