"""The rows: `dataset_name` and its neighbours, mixtures of one, open-r1's prompt column and system prompt."""

from collections.abc import Mapping

from grpo_recipes.takeover.basis.draft import Row
from grpo_recipes.takeover.basis.situation import Situation, beside_the_recipe

ONE = "a recipe has one dataset; put them together in one file or one hub dataset first"
# How scripts of people's own call dataset_name and dataset_train_split.
OTHER_NAMES = ("dataset_id_or_path",)
NO_PROMPT = "a script without rewards to name makes the prompts too: write prompt, unless the rows have that column"
# The mixture's words, TRL's and open-r1's, and the recipe's.
MIXTURE_KEYS = {"path": "dataset.path", "id": "dataset.path", "name": "dataset.name", "config": "dataset.name"}
MIXTURE_KEYS |= {"split": "dataset.split"}


def take_dataset(situation: Situation) -> None:
    """All keys about the rows."""
    given = situation.given
    for name in OTHER_NAMES:
        if name in given and "dataset_name" not in given:
            given.values["dataset_name"], given.names["dataset_name"] = given.values.pop(name), name
    for name in ("datasets", "dataset_mixture"):
        if name in given:
            _mixture(situation, name)
    if "dataset_name" in given:
        _plain(situation)
    elif "dataset.path" not in situation.draft.values:
        situation.draft.put("dataset.path", "owner/dataset", "no dataset was named: put yours here")
        given.refused("dataset_name", "the configuration names no dataset", "dataset.path")
    _prompt(situation)


def _plain(situation: Situation) -> None:
    given, draft = situation.given, situation.draft
    if "dataset.path" in draft.values:
        given.emulated("dataset_name", None, None, "TRL ignores it beside a mixture")
    else:
        given.mapped(
            "dataset_name", "dataset.path", beside_the_recipe(str(given.values["dataset_name"]), situation.folder)
        )
    for name, where in (("dataset_config", "dataset.name"), ("dataset_train_split", "dataset.split")):
        if name not in given:
            continue
        if where in draft.values:
            given.emulated(name, None, None, "the mixture's own word counts")
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
        given.refused(name, "it is a list of datasets", "dataset.path")
        return
    if len(parts) > 1:
        given.refused(name, f"{len(parts)} datasets: {ONE}", "dataset.path")
        situation.draft.put("dataset.path", "owner/dataset", ONE)
        return
    _one_dataset(situation, name, parts[0])
    for key, one in block.items():
        if key == "test_split_size" and one is not None:
            given.refused(name, "rows are not split off by chance: name a split or a file", "evaluation")
        elif key == "seed":
            given.emulated(name, None, None, "mixture's seed: the order of the rows comes from the recipe's seed")


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
            given.emulated(name, None, None, "all columns stay; rewards receive them beside the others")
        elif key in ("weight", "fraction") and value == 1:
            given.mapped(name, None, because="all rows")
        else:
            given.refused(name, f"{key} of a dataset has no place in a recipe", "dataset")


def _prompt(situation: Situation) -> None:
    """open-r1 makes a user message of one column, and a system message before it."""
    given = situation.given
    if situation.dialect == "trl" and not {"reward_funcs", "reward_model_name_or_path"} & set(given.values):
        where = ("dataset.prompt",)
        situation.draft.rows.append(Row("prompt (of the script)", None, "emulated", where, NO_PROMPT))
        situation.draft.comments["dataset"] = NO_PROMPT
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
