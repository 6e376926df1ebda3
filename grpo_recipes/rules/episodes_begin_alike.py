"""Each episode of an environment begins in the same state.

TRL makes each object of an environment once, and calls its `reset` before every completion. An attribute that a method
changes and `reset` does not set keeps its value: if `solved` was set once, every later completion of that object is
paid. A list or a dict in the body of the class is one for all objects, so each completion also sees what the others
did. Reported is what get_reward or a function of the file reads, and what methods count, switch or collect and then
read themselves. Not reported: names such as cache, client or total, which are meant to last, and classes whose reset
cannot be followed.
"""

import os
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Path
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.user_files.functions.definitions import Definition, definition

ID = "TOL017"


def check(context: Context) -> Iterator[Finding]:
    for place, file, name in _classes(context):
        path = os.path.normpath(os.path.join(context.source.directory(place), file))
        try:
            environment = definition(path, name)
        except (OSError, SyntaxError, ValueError):
            continue  # TOL008 reports it
        if isinstance(environment, Definition):
            from grpo_recipes.user_files.functions.episode_state import leftovers

            for leftover in leftovers(environment):
                attribute, where = leftover.attribute, f"{file}:{leftover.line}"
                yield context.finding(
                    f"{where}: {attribute} is one object for all episodes of {name}"
                    if leftover.is_shared
                    else f"{where}: {leftover.method} changes {attribute}, and reset of {name} does not set it again",
                    "environment.python" if place[0] == "environment" else "environments",
                    "each completion sees what the others did to it"
                    if leftover.is_shared
                    else "TRL resets the same object for every completion, so the next episode begins with it",
                    fix=f"set self.{attribute} in reset",
                    severity="warning",
                    mark=context.source.mark(place),
                )


def _classes(context: Context) -> Iterator[tuple[Path, str, str]]:
    """The key, the file and the class of each environment."""
    if context.value("environment.python") is not None:
        file, _, name = context.text("environment.python").rpartition(":")
        yield ("environment", "python"), file, name
    for index, item in enumerate(context.items("environments")):
        file, _, name = str(item["python"]).rpartition(":")
        yield ("environments", index, "python"), file, name
