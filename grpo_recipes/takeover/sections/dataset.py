"""The rows: `dataset_name` and its neighbours, mixtures, open-r1's prompt column and system prompt."""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from grpo_recipes.takeover.basis.context import Situation, beside_the_recipe
from grpo_recipes.takeover.basis.draft import Row

ENDS = "the sources of a mixture end at different times: write training.max_steps"
PARTS = "a part of the rows, whose number is not known here: write max_rows"
STREAMS = "a filter, a mixture and an exact resume need all rows and their number; a file is not held in memory"
# Names in custom scripts for dataset_name and dataset_train_split.
OTHER_NAMES = ("dataset_id_or_path",)
NO_PROMPT = "a script that names no rewards also builds the prompts: write prompt, and images if the rows have some"
# The rows of TRL's own script for vision models, examples/scripts/grpo_vlm.py.
GRPO_VLM = "lmms-lab/multimodal-open-r1-8k-verified"
OF_GRPO_VLM = "TRL's grpo_vlm.py adds a system prompt too, and leaves out images of 512 pixels or more on a side"
# The keys of a mixture in TRL, in open-r1 and in the recipe.
MIXTURE_KEYS = {"path": "dataset.path", "id": "dataset.path", "name": "dataset.name", "config": "dataset.name"}
MIXTURE_KEYS |= {"split": "dataset.split"}


def take_dataset(situation: Situation) -> None:
    """Takes over all keys about the rows."""
    given = situation.given
    for name in OTHER_NAMES:
        if name in given and "dataset_name" not in given:
            given.values["dataset_name"], given.names["dataset_name"] = given.values.pop(name), name
    for name in ("datasets", "dataset_mixture"):
        if name in given:
            _mixture(situation, name)
    if "dataset_name" in given:
        _plain(situation)
    elif not {"dataset.path", "datasets"} & situation.draft.values.keys():
        situation.draft.put("dataset.path", "owner/dataset", "no dataset was named: replace it with yours")
        given.refused("dataset_name", "the configuration names no dataset", "dataset.path")
    _prompt(situation)
    _prompts_of_sources(situation)


def _plain(situation: Situation) -> None:
    given, draft = situation.given, situation.draft
    if {"dataset.path", "datasets"} & draft.values.keys():
        given.emulated("dataset_name", None, None, "TRL ignores it with a mixture")
    else:
        given.mapped(
            "dataset_name", "dataset.path", beside_the_recipe(str(given.values["dataset_name"]), situation.folder)
        )
    for name, where in (("dataset_config", "dataset.name"), ("dataset_train_split", "dataset.split")):
        if name not in given:
            continue
        if where in draft.values or "datasets" in draft.values:
            given.emulated(name, None, None, "the mixture's own value counts")
        elif given.values[name] is None:
            given.mapped(name, None)
        else:
            given.mapped(name, where, str(given.values[name]))


def _mixture(situation: Situation, name: str) -> None:
    given = situation.given
    value = given.take(name)
    block = value if isinstance(value, Mapping) else {"datasets": value}
    parts = block.get("datasets")
    if not isinstance(parts, list) or not parts or not all(isinstance(part, Mapping) for part in parts):
        given.refused(name, "it must be a list of datasets", "dataset.path")
        return
    if len(parts) > 1:
        _sources(situation, name, parts)
    else:
        _one_dataset(situation, name, parts[0])
    for key, one in block.items():
        if key == "test_split_size" and one is not None:
            given.refused(name, "a recipe has no random split: name a split or a file", "evaluation")
        elif key == "streaming" and one is not False:
            given.refused(name, STREAMS, "datasets")
        elif key == "seed":
            given.emulated(name, None, None, "mixture's seed: the order of the rows comes from the recipe's seed")


def _sources(situation: Situation, name: str, parts: Sequence[Mapping[str, object]]) -> None:
    """Takes over several datasets as sources of a mixture, each with the keys that a source can have."""
    given = situation.given
    items: list[dict[str, object]] = []
    for part in parts:
        item: dict[str, object] = {"source": _source_name(part, [str(one["source"]) for one in items])}
        if not (part.get("path") or part.get("id")):
            given.refused(name, "it names no dataset", "datasets")
        for key, value in part.items():
            where = MIXTURE_KEYS.get(key)
            if value is None or (key == "weight" and value == 1):
                continue
            if where is not None:
                text = str(value)
                item[where.partition(".")[2]] = (
                    beside_the_recipe(text, situation.folder) if where == "dataset.path" else text
                )
            elif key == "fraction" and isinstance(value, int | float) and value > 0:
                item["weight"] = value
            elif key == "weight":
                given.refused(name, f"weight {value} of {item['source']} is {PARTS}", "datasets")
            elif key != "columns":
                given.refused(name, f"a recipe has no key for {key} of a dataset", "datasets")
        items.append(item)
    because = "each row is as likely as any other; TRL shuffles all rows together"
    if any("weight" in item for item in items):
        because = "a fraction is a share of the prompts: TRL drops rows to get it, a recipe repeats some"
    given.emulated(name, "datasets", items, because)
    steps = given.values.get("max_steps")
    if not isinstance(steps, int) or steps < 1:
        given.refused(name, ENDS, "training.max_steps")
    if given.values.get("shuffle_dataset") is True:
        given.mapped("shuffle_dataset", None, because="each source of a mixture is shuffled separately")


def _source_name(part: Mapping[str, object], others: Sequence[str]) -> str:
    path = PurePosixPath(str(part.get("path") or part.get("id") or ""))
    name = re.sub(r"[^A-Za-z0-9]+", "-", path.stem if path.suffix else path.name).strip("-")[:28] or "source"
    numbered = (f"{name}-{number}" for number in range(2, len(others) + 3))
    return next(one for one in (name, *numbered) if one not in others)


def _prompts_of_sources(situation: Situation) -> None:
    """Writes the prompt keys that apply to all rows into each source."""
    draft = situation.draft
    items: Any = draft.values.get("datasets")
    if not isinstance(items, list):
        return
    for key in ("prompt", "system_prompt"):
        where = f"dataset.{key}"
        value = draft.values.pop(where, None)
        if (comment := draft.comments.pop(where, None)) is not None:
            draft.comments["datasets"] = "; ".join(filter(None, (draft.comments.get("datasets"), comment)))
        for item in items if value is not None else ():
            item[key] = value


def _one_dataset(situation: Situation, name: str, part: Mapping[str, object]) -> None:
    given = situation.given
    if not (part.get("path") or part.get("id")):
        given.refused(name, "it names no dataset", "dataset.path")
    for key, value in part.items():
        where = MIXTURE_KEYS.get(key)
        if value is None:
            continue
        if where == "dataset.path":
            given.mapped(name, where, beside_the_recipe(str(value), situation.folder))
        elif where is not None:
            given.mapped(name, where, str(value))
        elif key == "columns":
            given.emulated(name, None, None, "all columns stay, and rewards receive all of them")
        elif key in ("weight", "fraction") and value == 1:
            given.mapped(name, None, because="all rows")
        else:
            given.refused(name, f"a recipe has no key for {key} of a dataset", "dataset")


def _prompt(situation: Situation) -> None:
    """Takes over the prompt: open-r1 makes a user message of one column, after a system message."""
    given = situation.given
    if situation.dialect == "trl" and not {"reward_funcs", "reward_model_name_or_path"} & set(given.values):
        where, because = ("dataset.prompt", "dataset.images"), NO_PROMPT
        if situation.draft.values.get("dataset.path") == GRPO_VLM:
            because = OF_GRPO_VLM
            situation.draft.put("dataset.prompt", "{{ problem }}")
            situation.draft.put("dataset.images", "image")
        situation.draft.rows.append(Row("prompt (of the script)", None, "emulated", where, because))
        situation.draft.comments["dataset"] = because
    if situation.dialect != "open_r1":
        return
    column = given.take("dataset_prompt_column") if "dataset_prompt_column" in given else None
    if column is None and "dataset_prompt_column" in given.taken:
        given.mapped("dataset_prompt_column", None)
    if column is not None:
        given.emulated("dataset_prompt_column", "dataset.prompt", f"{{{{ {column} }}}}", "a template over the row")
    else:
        situation.draft.put("dataset.prompt", "{{ prompt }}", "open-r1 makes a user message of the column prompt")
    if "system_prompt" in given:
        text = given.values["system_prompt"]
        if text is None:
            given.mapped("system_prompt", None)
        else:
            given.mapped("system_prompt", "dataset.system_prompt", str(text))
