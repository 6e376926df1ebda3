"""Takes over rewards: equivalent shipped ones, the user's own functions, reward models, and their weights."""

import keyword
import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import yaml

from grpo_recipes.schemas.other_names import other_names
from grpo_recipes.takeover.basis.context import Situation, beside_the_recipe
from grpo_recipes.takeover.basis.draft import Fate, Row
from grpo_recipes.takeover.basis.read import DATA, table_of
from grpo_recipes.takeover.basis.write import one_line
from grpo_recipes.user_files.functions.definitions import module_of
from grpo_recipes.user_files.functions.installed import find_installed_module

OPEN_R1_DEFAULT = ("accuracy", "format", "tag_count")
# Keys that no other program's script has, so that a file without rewards means open-r1's default ones.
OF_OPEN_R1 = frozenset(("benchmarks", "dataset_mixture", "dataset_prompt_column", "hub_model_revision"))
OF_OPEN_R1 |= {"overwrite_hub_revision", "push_to_hub_revision"}
WITH_FILES = "with -o a stub of it is written next to the recipe"
FILE = "rewards.py"


def take_rewards(situation: Situation) -> None:
    """Takes over all keys about rewards, in the order of TRL's script."""
    given, draft = situation.given, situation.draft
    rewards: list[dict[str, Any]] = []
    names = _names(situation)
    model = given.values.get("reward_model_name_or_path")
    weights = _weights(situation, len(names) + (model is not None))
    if model is not None:
        rewards.append({"model": beside_the_recipe(str(model), situation.folder), "weight": weights.pop(0)})
        given.add_row("reward_model_name_or_path", "mapped", "rewards", "a reward with `model`")
    elif "reward_model_name_or_path" in given:
        given.map_key("reward_model_name_or_path")
    for name, weight in zip(names, weights, strict=True):
        given.taken["reward_funcs"] = name
        rewards.extend(_rewards(situation, name, weight))
    if not rewards:
        given.taken["reward_funcs"] = None
        rewards = [{"python": _stub(situation, "reward", "the configuration names no reward"), "weight": 1.0}]
    draft.values["rewards"] = rewards
    if situation.dialect == "open_r1":
        _options(situation, names, rewards)
    if given.values.get("rollout_func") is not None:
        name = str(given.values["rollout_func"])
        module, _, function = name.rpartition(".")
        source = own_function(situation, name) or f"{module.replace('.', '/') or 'rollout'}.py:{function}"
        given.emulate_key("rollout_func", "TRL calls the same function; its file is yours", "rollout.python", source)


def _names(situation: Situation) -> list[str]:
    given = situation.given
    if "reward_funcs" not in given:
        if situation.dialect != "open_r1" or not OF_OPEN_R1 & {*given.values, *given.taken}:
            return []
        because = f"open-r1's own default: {', '.join(OPEN_R1_DEFAULT)}"
        situation.draft.comments["rewards"] = because
        situation.draft.rows.append(Row("reward_funcs (of open-r1)", None, "emulated", ("rewards",), because))
        return list(OPEN_R1_DEFAULT)
    value = given.take("reward_funcs")
    if value in (None, []):
        given.map_key("reward_funcs")
    elif not isinstance(value, list):
        given.refuse_key("reward_funcs", "it must be a list; TRL would split a text into letters", "rewards")
    return list(map(str, value)) if isinstance(value, list) else []


def _weights(situation: Situation, count: int) -> list[float]:
    """One factor for each reward, 1 by default."""
    given, value = situation.given, situation.given.values.get("reward_weights")
    if isinstance(value, list) and len(value) == count and all(isinstance(weight, int | float) for weight in value):
        given.add_row("reward_weights", "mapped", "rewards", "the `weight` of each reward")
        return list(map(float, value))
    if value is not None:
        given.refuse_key("reward_weights", f"they must be {count} numbers, one for each reward", "rewards")
    elif "reward_weights" in given:
        given.map_key("reward_weights")
    return [1.0] * count


def _rewards(situation: Situation, name: str, weight: float) -> list[dict[str, Any]]:
    """The recipe's rewards that are equivalent to one of the input."""
    given = situation.given
    row = other_names()["rewards"].get(situation.dialect, {}).get(name)
    if row is not None:
        given.add_row("reward_funcs", row["fate"], "rewards", f"{name}: {row['because']}")
        if row["fate"] == "emulated":
            _note(situation, f"{name}: {row['because']}")
        return [{**reward, "weight": reward.get("weight", 1.0) * weight} for reward in row["rewards"]]
    if "/" in name:
        given.add_row("reward_funcs", "mapped", "rewards", f"{name}: a reward model")
        return [{"model": beside_the_recipe(name, situation.folder), "weight": weight}]
    module, _, function = name.rpartition(".")
    python = own_function(situation, name)
    installed = find_installed_module(module) if module and python is None else None
    if python is not None:
        given.add_row("reward_funcs", "emulated", "rewards", f"{name}: a function in a file, next to the recipe")
    elif installed is not None and _has(installed.file, function):
        python = f"{module}:{function}"
        given.add_row("reward_funcs", "mapped", "rewards", f"{name}: a function of an installed package")
    else:
        python = _stub(situation, name, f"{name}: no shipped reward does this")
    return [{"python": python, "weight": weight}]


def _stub(situation: Situation, name: str, because: str) -> str:
    """`file.py:function` of a function that does not exist yet."""
    source = stub_for(situation, name)
    file, _, function = source.partition(":")
    fate: Fate = "emulated"
    if situation.writes_files and situation.dialect == "open_r1" and function in texts()["written"]:
        because = f"{name}: as in open-r1, with the reward accuracy instead of its own comparison; in {file}"
    elif situation.writes_files:
        because = f"{because}; {function} in {file} is a stub, which raises until you write it"
        _note(situation, f"{function}: a stub in {file}, to be filled in")
    else:
        fate, because = "refused", f"{because}; {WITH_FILES}"
    situation.given.add_row("reward_funcs", fate, "rewards", because)
    return source


def _note(situation: Situation, text: str) -> None:
    comments = situation.draft.comments
    comments["rewards"] = "; ".join(filter(None, (comments.get("rewards"), text)))


def _options(situation: Situation, names: Sequence[str], rewards: list[dict[str, Any]]) -> None:
    """Makes each option of open-r1's own rewards a keyword of the functions that read it."""
    given, stubs = situation.given, situation.draft.stubs
    for option, owners in table_of("trl")["options_of_rewards"].items():
        if option not in given:
            continue
        used = [owner for owner in owners if owner in names]
        if not used:
            given.emulate_key(option, f"read only by {' and '.join(owners)}, which is not used")
            continue
        if not situation.writes_files and not any(reward.get("name") in used for reward in rewards):
            given.refuse_key(option, f"an option of {used[0]}, which no shipped reward does", "rewards")
            continue
        for reward in rewards:
            function = str(reward.get("name") or reward.get("python", "")).rpartition(":")[2]
            if function in used:
                reward["options"] = {**reward.get("options", {}), option: given.values[option]}
            if function in used and function in stubs:
                stubs[function] = (*stubs[function], option)
        given.add_row(option, "emulated", "rewards", f"a keyword of {' and '.join(used)}")


@cache
def texts() -> dict[str, Any]:
    """The parts of that file."""
    parts: dict[str, Any] = yaml.safe_load((DATA / "stubs.yaml").read_text(encoding="utf-8"))
    return parts


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
    wanted = "".join(sign if sign.isalnum() and sign.isascii() else "_" for sign in name.rpartition(".")[2])
    if not wanted.isidentifier() or keyword.iskeyword(wanted):
        wanted = "reward"
    numbered = (f"{wanted}_{count}" for count in range(2, len(stubs) + 3))
    function = next(free for free in (wanted, *numbered) if free not in stubs)
    stubs[function] = ()
    return f"{_file(situation)}:{function}"


def write_stubs(situation: Situation, config: str) -> None:
    """Writes the file of all stubs next to the recipe."""
    if not situation.draft.stubs:
        return
    shown = one_line(ascii(config)[1:-1].replace("\\", "/").replace('"', "'"))
    text = texts()["head"].replace("{{config}}", shown)
    for name, options in situation.draft.stubs.items():
        parameters = ", ".join(["completions", *(f"{option}=None" for option in options), "**kwargs"])
        stub = texts()["stub"].replace("{{name}}", name).replace("{{parameters}}", parameters)
        stub = stub.replace("{{options}}", f"; the recipe says {', '.join(options)}" if options else "")
        text += texts()["written"].get(name, stub)
    situation.draft.files[_file(situation)] = text


def _file(situation: Situation) -> str:
    """rewards.py, or a name derived from the recipe's if that exists: it is never overwritten."""
    is_free = not os.path.lexists(os.path.join(situation.folder, FILE))
    return FILE if is_free else f"{situation.stem}_{FILE}"


def _has(path: str, name: str) -> bool:
    try:
        return name in module_of(path).bound
    except (OSError, SyntaxError, ValueError):
        return False
