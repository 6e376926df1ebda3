"""TRL's own environment can be constructed from its `config`, and its package is installed.

`environment.python` can name `trl.experimental.openreward:OpenRewardSpec`, which needs the package openreward, or
`trl.experimental.harbor:HarborSpec`, which needs harbor and with it Python 3.12. TRL imports the package when it
requests the first task, and calls the class with the keywords of `config`; a wrong keyword raises TypeError.
`dataset.split` sets the split, and `evaluation.split` that of held-out rows. `validate` calls no service; `preflight`
and a run call it before they load a model, and report if it does not answer.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.tasks import HARBOR, SPECS
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import said_code
from grpo_recipes.user_files.local_files import listed

ID = "TOL016"
KEY, CONFIG = "environment.python", "environment.config"
HARBORS_PYTHON = (3, 12)


def check(context: Context) -> Iterator[Finding]:
    said = said_code(context, "environment")
    if said is None or said.path:
        return
    target = f"{said.file}:{said.name}"
    package, python = SPECS[target], context.stack.python
    if target == HARBOR and python is not None and tuple(map(int, python.split(".")[:2])) < HARBORS_PYTHON:
        because = [f"{context.stack.origin} has Python {python}"]
        yield context.finding(
            "harbor needs Python 3.12 or newer", KEY, because, fix="use a virtual environment with Python 3.12"
        )
    elif not context.stack.is_known(package):
        because = [f"{context.stack.origin} does not say"]
        yield context.not_checked(f"not checked: whether {package} is installed", KEY, because)
    elif context.stack.is_absent(package):
        because = [f"{said.name} imports it when it requests the first task"]
        yield context.finding(f"{package} is not installed", KEY, because, fix=f"pip install {package}")
    yield from _of_config(context, target)


def _of_config(context: Context, target: str) -> Iterator[Finding]:
    from grpo_recipes.user_files.functions.classes import class_of
    from grpo_recipes.user_files.functions.installed import installed_module

    config, name = context.mapping(CONFIG), target.rpartition(":")[2]
    first = "dataset" if target == HARBOR else "target"
    if not isinstance(config.get(first), str):
        because = [f"{name} needs it"]
        example = "owner/tasks" if target == HARBOR else "http://localhost:8080"
        yield context.finding(f"config has no {first}", CONFIG, because, fix=f"config: {{{first}: {example}}}")
    if "split" in config:
        path = ("environment", "config", "split")
        because = ["dataset.split sets the split, and evaluation.split that of held-out rows"]
        patch = [Patch(path, remove=True), Patch(("dataset", "split"), config["split"])]
        yield context.finding(
            "config cannot set split", CONFIG, because, fix=f"dataset: {{split: {config['split']}}}", patch=patch
        )
    module = installed_module(target.rpartition(":")[0])
    found = None if module is None else class_of(module.file, name)
    made = None if found is None else found.methods.get("__init__")
    if made is None:
        return
    taken = [one.name for one in made.function.parameters]
    for unknown in sorted(set(config) - {*taken, "split"}):
        patch = [Patch(("environment", "config", unknown), remove=True)]
        because = [f"it takes {listed(taken)}"]
        yield context.finding(f"{name} does not take {unknown}", CONFIG, because, patch=patch)
