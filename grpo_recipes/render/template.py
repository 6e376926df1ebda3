"""The jinja2 templates beside this file, filled in."""

import json
import shlex
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_recipes.contract.host.surroundings import LISTS_OF_PLACES, OF_THE_LAUNCH

if TYPE_CHECKING:
    from jinja2 import Environment


def fill(template: str, **values: object) -> str:
    """The text of a template; an undefined name raises jinja2.UndefinedError.

    Filters: `yaml` writes a scalar as YAML (JSON is a part of it), `shell` as one word of a shell.
    """
    return _environment().get_template(template).render(values)


@cache
def _environment() -> "Environment":
    # Imported here, since most commands render nothing and jinja2 costs them 25 ms.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(lists_of_places=LISTS_OF_PLACES, safe_path=OF_THE_LAUNCH)
    environment.filters["yaml"] = json.dumps
    environment.filters["shell"] = shlex.quote
    return environment
