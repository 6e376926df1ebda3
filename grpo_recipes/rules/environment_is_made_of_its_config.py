"""An environment can be constructed from its `config`.

TRL creates an object of the class for each completion of a generation, with only the keywords in `config`. A parameter
without a default that `config` lacks, or a keyword that the class does not take, raises TypeError when the trainer is
built, after loading the model.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import read_environment
from grpo_recipes.user_files.local_files import name_list

ID = "TOL008"
KEY = "environment.config"
RAISED = "the trainer raises TypeError when it makes the first object"


def check(context: Context) -> Iterator[Finding]:
    environment = read_environment(context)
    if environment is None or environment[1].is_open or "__new__" in environment[1].methods:
        return
    code, environment_class = environment
    config, made = context.mapping(KEY), environment_class.methods.get("__init__")
    if made is not None and made.function.is_decorated:
        return
    own = () if made is None else made.function.parameters
    where = f"{code.file}:{environment_class.line if made is None else made.function.line}"
    taken = [parameter.name for parameter in own if parameter.kind == "plain"]
    missing = [parameter.name for parameter in own if parameter.is_needed and parameter.name not in config]
    if missing:
        message = f"{where}: {code.name} needs {name_list(missing)}, but config lacks it"
        yield context.finding(
            message, "environment.python", RAISED, fix=f"config: {{{', '.join(f'{name}: ...' for name in missing)}}}"
        )
    for name in () if any(parameter.kind == "**" for parameter in own) else sorted(set(config) - set(taken)):
        close = nearest_words(name, [parameter for parameter in taken if parameter not in config], cutoff=0.6)
        path = ("environment", "config", name)
        patch = [Patch(path, remove=True)]
        patch += [Patch((*path[:2], close[0]), config[name])] if close else []
        message = f"{where}: {code.name} does not take {name}"
        because = [f"it takes {name_list(taken) or 'nothing'}", RAISED]
        yield context.finding(
            message, KEY, because, fix=f"{close[0]} instead of {name}" if close else None, patch=patch
        )
