"""Reward functions of an author become stubs in a file beside the recipe, for him to fill."""

import keyword
import os
from collections.abc import Mapping

from grpo_recipes.takeover.basis.situation import Situation, beside_the_recipe
from grpo_recipes.takeover.basis.write import one_line
from grpo_recipes.user_files.functions.definitions import module_of
from grpo_recipes.user_files.functions.installed import installed_module

FILE = "rewards.py"
HEAD = '''\
"""Rewards of {config}, to be filled in.

TRL calls each with the completions of a batch, and with every column of the rows by its name. A completion is a text,
or, where the prompt is a conversation, a list of one message: completion[0]["content"].
"""
'''
STUB = """

def {name}({parameters}) -> list[float]:
    \"\"\"One number for each completion{said}.\"\"\"
    raise NotImplementedError(
        "put the reward {name} here, or name its own file in the recipe: python: FILE.py:{name}"
    )
"""


def own_function(situation: Situation, name: str) -> str | None:
    """`file.py:function` of a reward that lies beside the recipe or here already, None for one that does not."""
    module, _, function = name.rpartition(".")
    own = module.replace(".", os.sep) + ".py" if module else FILE
    if _has(own, function):
        return f"{beside_the_recipe(own, situation.folder).removeprefix('./')}:{function}"
    return f"{own}:{function}" if _has(os.path.join(situation.folder, own), function) else None


def is_installed(name: str) -> bool:
    """Whether a dotted name is that of a function of an installed package."""
    module, _, function = name.rpartition(".")
    installed = installed_module(module) if module else None
    return installed is not None and _has(installed.file, function)


def stub_for(situation: Situation, name: str) -> str:
    """`file.py:function` of a new stub."""
    stubs = situation.draft.stubs
    wanted = "".join(one if one.isalnum() and one.isascii() else "_" for one in name.rpartition(".")[2])
    if not wanted.isidentifier() or keyword.iskeyword(wanted):
        wanted = "reward"
    free = (f"{wanted}{number}" for number in ("", *(f"_{count}" for count in range(2, len(stubs) + 3))))
    function = next(one for one in free if one not in stubs)
    stubs[function] = ()
    return f"{_file(situation)}:{function}"


def write_stubs(situation: Situation, config: str) -> None:
    """Puts the file of all stubs beside the recipe."""
    if situation.draft.stubs:
        situation.draft.files[_file(situation)] = _text(config, situation.draft.stubs)


def _file(situation: Situation) -> str:
    """rewards.py, or a name of the recipe's own where that is there already: it is never written over."""
    is_free = not os.path.lexists(os.path.join(situation.folder, FILE))
    return FILE if is_free else f"{situation.stem}_{FILE}"


def _has(path: str, name: str) -> bool:
    try:
        return name in module_of(path).bound
    except (OSError, SyntaxError, ValueError):
        return False


def _text(config: str, stubs: Mapping[str, tuple[str, ...]]) -> str:
    text = HEAD.format(config=one_line(ascii(config)[1:-1].replace("\\", "/").replace('"', "'")))
    for name, options in stubs.items():
        parameters = ", ".join(["completions", *(f"{option}=None" for option in options), "**kwargs"])
        said = f"; the recipe says {', '.join(options)}" if options else ""
        text += STUB.format(name=name, parameters=parameters, said=said)
    return text
