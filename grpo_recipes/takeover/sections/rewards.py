"""Takes over rewards: equivalent shipped ones, the user's own functions, reward models, and their weights."""

import keyword
import os
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_recipes.schemas.other_names import other_names
from grpo_recipes.takeover.basis.context import Situation, beside_the_recipe
from grpo_recipes.takeover.basis.read import table_of
from grpo_recipes.takeover.basis.write import one_line
from grpo_recipes.user_files.functions.definitions import module_of
from grpo_recipes.user_files.functions.installed import installed_module

OPEN_R1_DEFAULT = ("accuracy", "format", "tag_count")
WITH_FILES = "with -o a stub of it is written next to the recipe"


def take_rewards(situation: Situation) -> None:
    """Takes over all keys about rewards, in the order of TRL's script."""
    given, draft = situation.given, situation.draft
    rewards: list[dict[str, object]] = []
    names = _names(situation)
    model = given.values.get("reward_model_name_or_path")
    weights = _weights(situation, len(names) + (model is not None))
    if model is not None:
        rewards.append({"model": beside_the_recipe(str(model), situation.folder), "weight": weights.pop(0)})
        given.told("reward_model_name_or_path", "mapped", "rewards", "a reward with `model`")
    elif "reward_model_name_or_path" in given:
        given.mapped("reward_model_name_or_path", None)
    for name, weight in zip(names, weights, strict=True):
        rewards.extend(_rewards(situation, name, weight))
    if not rewards:
        given.taken["reward_funcs"] = None
        rewards = [{"python": _stub(situation, "reward", "the configuration names no reward"), "weight": 1.0}]
    draft.values["rewards"] = rewards
    _options(situation, names)


def _names(situation: Situation) -> list[str]:
    given = situation.given
    if "reward_funcs" not in given:
        if situation.dialect != "open_r1":
            return []
        situation.draft.comments["rewards"] = f"open-r1's own default: {', '.join(OPEN_R1_DEFAULT)}"
        return list(OPEN_R1_DEFAULT)
    value = given.take("reward_funcs")
    if not value:
        given.mapped("reward_funcs", None)
    if isinstance(value, list):
        return [str(one) for one in value]
    if value is not None:
        given.refused("reward_funcs", "it must be a list; TRL would split a text into letters", "rewards")
    return []


def _weights(situation: Situation, count: int) -> list[float]:
    """One factor for each reward, 1 by default."""
    given = situation.given
    value = given.take("reward_weights") if "reward_weights" in given else None
    ones = [1.0] * count
    if value is None:
        if "reward_weights" in given.taken:
            given.mapped("reward_weights", None)
        return ones
    if not isinstance(value, list) or len(value) != count or not all(isinstance(one, int | float) for one in value):
        given.refused("reward_weights", f"they must be {count} numbers, one for each reward", "rewards")
        return ones
    given.told("reward_weights", "mapped", "rewards", "the `weight` of each reward")
    return [float(one) for one in value]


def _rewards(situation: Situation, name: str, weight: float) -> list[dict[str, object]]:
    """The recipe's rewards that are equivalent to one of the input."""
    given = situation.given
    tables = other_names()["rewards"]
    said = tables.get(situation.dialect, {}).get(name)
    key = "reward_funcs"
    given.taken[key] = name
    if said is not None:
        given.told(key, said["fate"], "rewards", f"{name}: {said['because']}")
        if said["fate"] == "emulated":
            _note(situation, f"{name}: {said['because']}")
        return [_weighted(one, weight) for one in said["rewards"]]
    if "/" in name:
        given.told(key, "mapped", "rewards", f"{name}: a reward model")
        return [{"model": beside_the_recipe(name, situation.folder), "weight": weight}]
    own = own_function(situation, name)
    if own is not None:
        given.told(key, "emulated", "rewards", f"{name}: a function in a file, next to the recipe")
        return [{"python": own, "weight": weight}]
    module, _, function = name.rpartition(".")
    installed = installed_module(module) if module else None
    if installed is not None and _has(installed.file, function):
        given.told(key, "mapped", "rewards", f"{name}: a function of an installed package")
        return [{"python": f"{module}:{function}", "weight": weight}]
    return [{"python": _stub(situation, name, f"{name}: no shipped reward does this"), "weight": weight}]


def _stub(situation: Situation, name: str, because: str) -> str:
    """`file.py:function` of a function that does not exist yet."""
    source = stub_for(situation, name)
    file, _, function = source.partition(":")
    if situation.writes_files:
        told = f"{because}; {function} in {file} is a stub, which raises until you write it"
        situation.given.told("reward_funcs", "emulated", "rewards", told)
        _note(situation, f"{function}: a stub in {file}, to be filled in")
    else:
        situation.given.told("reward_funcs", "refused", "rewards", f"{because}; {WITH_FILES}")
    return source


def _note(situation: Situation, text: str) -> None:
    said = situation.draft.comments.get("rewards")
    situation.draft.comments["rewards"] = f"{said}; {text}" if said else text


def _weighted(reward: Mapping[str, object], weight: float) -> dict[str, object]:
    own = reward.get("weight", 1.0)
    assert isinstance(own, int | float)
    return {**reward, "weight": own * weight}


def _options(situation: Situation, names: Sequence[str]) -> None:
    """Takes over the options of open-r1's own rewards."""
    given = situation.given
    if situation.dialect != "open_r1":
        return
    for option, owners in table_of("answers")["options_of_rewards"].items():
        if option not in given:
            continue
        used = [owner for owner in owners if owner in names]
        rewards = situation.draft.values["rewards"]
        assert isinstance(rewards, list)
        if not used:
            given.emulated(option, None, None, f"read only by {' and '.join(owners)}, which is not used")
        elif not situation.writes_files and not any(reward.get("name") in used for reward in rewards):
            given.refused(option, f"an option of {used[0]}, which no shipped reward does", "rewards")
        else:
            _hand_on(situation, option, used, rewards)


def _hand_on(situation: Situation, option: str, owners: Sequence[str], rewards: list[dict[str, Any]]) -> None:
    """Makes an option a keyword of the functions that read it."""
    given, draft = situation.given, situation.draft
    for reward in rewards:
        function = str(reward.get("name") or reward.get("python", "")).rpartition(":")[2]
        if function in owners:
            reward["options"] = {**reward.get("options", {}), option: given.values[option]}
            if function in draft.stubs:
                draft.stubs[function] = (*draft.stubs[function], option)
    given.told(option, "emulated", "rewards", f"a keyword of {' and '.join(owners)}")


# Reward functions of an author become stubs in a file next to the recipe, for the author to fill in.


FILE = "rewards.py"
HEAD = '''\
"""Rewards of {config}, to be filled in.

TRL calls each with the completions of a batch, and with every column of the rows by its name. A completion is a text,
or, if the prompt is a conversation, a list of one message: completion[0]["content"].
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
    """`file.py:function` of a reward that exists next to the recipe or here, None for any other."""
    module, _, function = name.rpartition(".")
    own = module.replace(".", os.sep) + ".py" if module else FILE
    if _has(own, function):
        return f"{beside_the_recipe(own, situation.folder).removeprefix('./')}:{function}"
    return f"{own}:{function}" if _has(os.path.join(situation.folder, own), function) else None


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
    """Writes the file of all stubs next to the recipe."""
    if situation.draft.stubs:
        situation.draft.files[_file(situation)] = _text(config, situation.draft.stubs)


def _file(situation: Situation) -> str:
    """rewards.py, or a name derived from the recipe's if that exists: it is never overwritten."""
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
