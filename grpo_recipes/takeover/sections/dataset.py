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
NO_PROMPT = "a script that names no rewards also builds the prompts: write prompt, and images if the rows have some"
# The rows of TRL's own script for vision models, examples/scripts/grpo_vlm.py.
GRPO_VLM = "lmms-lab/multimodal-open-r1-8k-verified"
OF_GRPO_VLM = "TRL's grpo_vlm.py adds a system prompt too, and leaves out images of 512 pixels or more on a side"
# The keys of a mixture in TRL, in open-r1 and in the recipe.
MIXTURE_KEYS = {"path": "path", "id": "path", "name": "name", "config": "name", "split": "split"}


def take_dataset(situation: Situation) -> None:
    """Takes over all keys about the rows."""
    given, draft = situation.given, situation.draft
    given.rename("dataset_id_or_path", "dataset_name")
    for name in ("datasets", "dataset_mixture"):
        if name in given:
            _mixture(situation, name)
    is_mixture = bool({"dataset.path", "datasets"} & draft.values.keys())
    if "dataset_name" not in given:
        if not is_mixture:
            draft.put("dataset.path", "owner/dataset", "no dataset was named: replace it with yours")
            given.refuse_key("dataset_name", "the configuration names no dataset", "dataset.path")
    elif is_mixture:
        given.emulate_key("dataset_name", "TRL ignores it with a mixture")
    else:
        path = beside_the_recipe(str(given.values["dataset_name"]), situation.folder)
        given.map_key("dataset_name", "dataset.path", path)
    for name, where in (("dataset_config", "dataset.name"), ("dataset_train_split", "dataset.split")):
        if name in given and (where in draft.values or "datasets" in draft.values):
            given.emulate_key(name, "the mixture's own value counts")
        elif name in given:
            _text(situation, name, where)
    _prompt(situation)
    _prompts_of_sources(situation)


def _text(situation: Situation, name: str, where: str) -> None:
    value = situation.given.values[name]
    situation.given.map_key(name, "" if value is None else where, str(value))


def _mixture(situation: Situation, name: str) -> None:
    given = situation.given
    value = given.take(name)
    block = value if isinstance(value, Mapping) else {"datasets": value}
    parts = block.get("datasets")
    if not isinstance(parts, list) or not parts or not all(isinstance(part, Mapping) for part in parts):
        given.refuse_key(name, "it must be a list of datasets", "dataset.path")
        return
    where = "datasets" if len(parts) > 1 else "dataset"
    items: list[dict[str, object]] = []
    for part in parts:
        items.append(
            {"source": _source_name(part, [str(item["source"]) for item in items])} if where == "datasets" else {}
        )
        if not (part.get("path") or part.get("id")):
            given.refuse_key(name, "it names no dataset", where)
        for key, value in part.items():
            _part(situation, name, items[-1], key, value, where)
    if where == "datasets":
        _sources(situation, name, items)
    for key, value in items[0].items() if where == "dataset" else ():
        given.map_key(name, f"dataset.{key}", value)
    if block.get("test_split_size") is not None:
        given.refuse_key(name, "a recipe has no random split: name a split or a file", "evaluation")
    if block.get("streaming", False) is not False:
        given.refuse_key(name, STREAMS, "datasets")
    if "seed" in block:
        given.emulate_key(name, "mixture's seed: the order of the rows comes from the recipe's seed")


def _part(situation: Situation, name: str, item: dict[str, object], key: str, value: object, where: str) -> None:
    """Adds what a recipe has for a key of a dataset; refuses others."""
    is_source = where == "datasets"
    if key in MIXTURE_KEYS and value is not None:
        path = beside_the_recipe(str(value), situation.folder)
        item[MIXTURE_KEYS[key]] = path if MIXTURE_KEYS[key] == "path" else str(value)
    elif key == "fraction" and is_source and isinstance(value, int | float) and value > 0:
        item["weight"] = value
    elif key == "columns" and not is_source:
        situation.given.emulate_key(name, "all columns stay, and rewards receive all of them")
    elif value is not None and key != "columns" and not (key in ("weight", "fraction") and value == 1):
        weight = f"weight {value} of {item.get('source')} is {PARTS}"
        because = weight if key == "weight" and is_source else f"a recipe has no key for {key} of a dataset"
        situation.given.refuse_key(name, because, where)


def _sources(situation: Situation, name: str, items: list[dict[str, object]]) -> None:
    """Takes over several datasets as sources of a mixture."""
    given, steps = situation.given, situation.given.values.get("max_steps")
    because = "each row is as likely as any other; TRL shuffles all rows together"
    if any("weight" in item for item in items):
        because = "a fraction is a share of the prompts: TRL drops rows to get it, a recipe repeats some"
    given.emulate_key(name, because, "datasets", items)
    if not isinstance(steps, int) or steps < 1:
        given.refuse_key(name, ENDS, "training.max_steps")
    if given.values.get("shuffle_dataset") is True:
        given.map_key("shuffle_dataset", because="each source of a mixture is shuffled separately")


def _source_name(part: Mapping[str, object], others: Sequence[str]) -> str:
    path = PurePosixPath(str(part.get("path") or part.get("id") or ""))
    name = re.sub(r"[^A-Za-z0-9]+", "-", path.stem if path.suffix else path.name).strip("-")[:28] or "source"
    numbered = (f"{name}-{number}" for number in range(2, len(others) + 3))
    return next(free for free in (name, *numbered) if free not in others)


def _prompts_of_sources(situation: Situation) -> None:
    """Writes the prompt keys that apply to all rows into each source."""
    draft = situation.draft
    items: Any = draft.values.get("datasets", [])
    for where in ("dataset.prompt", "dataset.system_prompt") if items else ():
        value, comment = draft.values.pop(where, None), draft.comments.pop(where, None)
        if comment is not None:
            draft.comments["datasets"] = "; ".join(filter(None, (draft.comments.get("datasets"), comment)))
        for item in items if value is not None else ():
            item[where.partition(".")[2]] = value


def _prompt(situation: Situation) -> None:
    """Takes over the prompt: open-r1 makes a user message of one column, after a system message."""
    given, draft = situation.given, situation.draft
    if situation.dialect == "trl" and not {"reward_funcs", "reward_model_name_or_path"} & set(given.values):
        where, because = ("dataset.prompt", "dataset.images"), NO_PROMPT
        if draft.values.get("dataset.path") == GRPO_VLM:
            because = OF_GRPO_VLM
            draft.values |= {"dataset.prompt": "{{ problem }}", "dataset.images": "image"}
        draft.rows.append(Row("prompt (of the script)", None, "emulated", where, because))
        draft.comments["dataset"] = because
    if situation.dialect != "open_r1":
        return
    column = given.values.get("dataset_prompt_column")
    if column is not None:
        prompt = f"{{{{ {column} }}}}"
        given.emulate_key("dataset_prompt_column", "a template over the row", "dataset.prompt", prompt)
    else:
        draft.put("dataset.prompt", "{{ prompt }}", "open-r1 makes a user message of the column prompt")
    if "dataset_prompt_column" in given:
        given.map_key("dataset_prompt_column")
    if "system_prompt" in given:
        _text(situation, "system_prompt", "dataset.system_prompt")
