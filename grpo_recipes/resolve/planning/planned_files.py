"""Plans model, tokenizer, data, held-out sets and rewards: their paths and the digests of their contents."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from grpo_recipes.contract.plan import Data, HeldOutSet, Model, PlannedSetting, Reward, Tokenizer
from grpo_recipes.contract.plan_sections import Package, Passes
from grpo_recipes.rewards.catalog import LENGTH_OPTIONS
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import (
    SETS,
    are_episodes,
    held_out_sets,
    image_columns,
    makes_rows,
    rewards_of_set,
    tasks,
)
from grpo_recipes.rules.groups_can_be_redrawn import SHUFFLES
from grpo_recipes.rules.passing_is_defined import what_passes
from grpo_recipes.user_files.digests import (
    READ_FOR_A_PLAN_BYTES,
    FolderContent,
    data_folder_content,
    file_content,
    folder_content,
    text_content,
)
from grpo_recipes.user_files.local_files import data_format, local_path
from grpo_recipes.user_files.model_config import commit_in_cache
from grpo_recipes.user_files.reward_imports import modules_beside, names_module, reward_names
from grpo_recipes.user_files.template import chat_template_of

HELD_OUT = 10**9
"""The number of the first held-out episode."""


def plan_model(context: Context) -> Model:
    """The policy; its folder is read within the limits of a plan."""
    value = context.text("model.model_name_or_path")
    path = local_path(value, context.source.directory(("model", "model_name_or_path")))
    if path is not None:
        content = _small_folder(path)
        sha256, files = (content.sha256, content.files) if content is not None else (None, {})
        return Model("folder", path, sha256=sha256, files=files)
    revision = _text_or_none(context.value("model_init_kwargs.revision"))
    return Model("hub", value, revision, commit=commit_in_cache(value, revision))


def plan_tokenizer(context: Context, model: Model) -> Tokenizer:
    """The changes to the model's tokenizer, and the digest of the chat template that is used."""
    template = context.value("tokenizer.chat_template_path")
    directory = context.source.directory(("tokenizer", "chat_template_path"))
    tokens = context.value("tokenizer.add_tokens")
    path = os.path.normpath(os.path.join(directory, str(template))) if template else None
    if path is not None:
        sha256: str | None = text_content(path).sha256
    else:
        own = chat_template_of(model.path, model.commit or model.revision)
        sha256 = None if own is None else hashlib.sha256(own.encode()).hexdigest()
    return Tokenizer(path, tuple(tokens) if isinstance(tokens, list) else (), sha256)


def plan_data(context: Context, section: str) -> Data:
    """The rows of `dataset`, or of `evaluation` with everything that it inherits from `dataset`."""
    own_path = context.value(f"{section}.path") is not None
    if makes_rows(context) and not own_path:
        return _plan_generated_rows(context, section)
    made = _episodes(context, section) if not own_path and are_episodes(context) else None
    key = f"{section}.path" if own_path else "dataset.path"
    value = "" if made is not None else context.text(key)
    path = None if made is not None else local_path(value, context.source.directory(context.path(key)))
    kind = None if path is None else data_format(path)
    text = _text_or_none
    revision = None if section == "evaluation" and own_path else text(context.value("dataset.revision"))
    sha256, rows = _data_content(path, kind) if made is None else _episodes_digest(made)
    return Data(
        source="made" if made else "file" if kind is not None else "folder" if path is not None else "hub",
        path=path or value,
        format=kind,
        name=text(context.value(f"{section}.name")) or (None if own_path else text(context.value("dataset.name"))),
        split=text(context.value(f"{section}.split")) or "train",
        revision=revision,
        **_prompts(context),
        **_choice(context, section),
        max_rows=context.value(f"{section}.max_rows") if made is None else None,  # type: ignore[arg-type]
        sha256=sha256,
        rows=rows,
        commit=commit_in_cache(value, revision, "datasets") if path is None and made is None else None,
        made=made,
    )


def _episodes(context: Context, section: str) -> dict[str, object]:
    """The episodes of an environment that owns its data; held-out ones have numbers that no training uses."""
    return {"episodes": context.whole(f"{section}.max_rows"), "first": HELD_OUT if section == "evaluation" else 0}


def _episodes_digest(made: Mapping[str, object]) -> tuple[str, int]:
    """The digest of a sequence of episodes, whatever its length, and the number used."""
    return hashlib.sha256(f"episodes from {made['first']}".encode()).hexdigest(), int(str(made["episodes"]))


def _plan_generated_rows(context: Context, section: str) -> Data:
    """Rows that tasks generate; only a launch makes them and knows their content."""
    size = context.whole(f"{section}.reasoning_gym.size")
    made: dict[str, object] = {
        "tasks": tasks(context),
        "size": size,
        "seed": context.whole(f"{section}.reasoning_gym.seed"),
    }
    if section == "evaluation":
        made["not_in"] = plan_data(context, "dataset").made["reasoning_gym"]  # type: ignore[index]
    return Data(
        source="made",
        path="",
        format=None,
        name=None,
        split="train",
        revision=None,
        **_prompts(context),
        **_choice(context, section),
        max_rows=context.value(f"{section}.max_rows"),  # type: ignore[arg-type]
        rows=size if section == "dataset" else None,
        made={"reasoning_gym": made},
    )


def _prompts(context: Context) -> dict[str, Any]:
    """How a row becomes a prompt, for any source of rows."""
    written = _text_or_none(context.value("dataset.prompt"))
    return {
        "prompt": "{{ question }}" if written is None and makes_rows(context) else written,
        "prompt_format": "standard" if context.text("dataset.prompt_format") == "standard" else "conversational",
        "system_prompt": _text_or_none(context.value("dataset.system_prompt")),
        "columns": {k: str(v) for k, v in context.mapping("dataset.columns").items()},
        "environments": tuple(str(environment["name"]) for environment in context.items("environments")),
        "images": image_columns(context),
        "max_pixels": context.value("dataset.max_pixels"),
    }


def _choice(context: Context, section: str) -> dict[str, Any]:
    """Which rows are trained on; all held-out rows are used, so runs with different filters can be compared."""
    if section != "dataset":
        return {}
    choice = {
        "filter": _text_or_none(context.value("dataset.filter")),
        "shuffle_seed": context.value("dataset.shuffle_seed"),
        "sort_by": _text_or_none(context.value("dataset.sort_by")),
    }
    if "datasets.source" in context.settings:
        choice |= {
            "source_name": context.text("datasets.source"),
            "weight": context.value("datasets.weight"),
            "from_step": context.whole("datasets.from_step"),
            "in_order": choice["sort_by"] is not None or context.is_given(SHUFFLES),
        }
    limit, over = (f"dataset.max_prompt_tokens.{name}" for name in ("limit", "over"))
    if limit not in context.settings or context.value(over) == "cut":
        return choice
    return {**choice, "max_prompt_tokens": context.whole(limit), "over": context.value(over)}


def plan_rewards(context: Context) -> tuple[Reward, ...]:
    """The rewards, each with a unique name, and with the sources of a mixture that it does not judge."""
    rewards, sources = context.items("rewards"), context.items("datasets")
    named = zip(reward_names(rewards), rewards, strict=True)
    planned = [_reward(context, index, name, reward) for index, (name, reward) in enumerate(named)]
    limited = {str(source["source"]): source["rewards"] for source in sources if source["rewards"] is not None}
    return tuple(
        replace(reward, not_of=tuple(name for name, own in limited.items() if reward.name not in own))
        for reward in planned
    )


def _small_folder(path: str, *, of_data: bool = False) -> FolderContent | None:
    """The content of a small, readable folder; a launch reads the others, and reports unreadable ones."""
    read = data_folder_content if of_data else folder_content
    try:
        return read(path, most_bytes=READ_FOR_A_PLAN_BYTES) if os.path.isdir(path) else None
    except OSError:
        return None


def _data_content(path: str | None, kind: str | None) -> tuple[str | None, int | None]:
    """The digest and row count of local data, within the limits of a plan."""
    if path is None:
        return None, None
    if kind is None:
        content = _small_folder(path, of_data=True)
        return (content.sha256, None) if content is not None else (None, None)
    file = file_content(path, count_rows=path.lower().endswith(".jsonl"))
    return file.sha256, file.rows


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)


def _reward(context: Context, index: int, name: str, reward: Mapping[str, object]) -> Reward:
    weight, options = float(str(reward["weight"])), reward["options"]
    kwargs = dict(options) if isinstance(options, dict) else {}
    if reward["python"] is not None and names_module(str(reward["python"])):
        from grpo_recipes.user_files.functions.installed import package_reward

        of_package = package_reward(context.stack, str(reward["python"]))
        package = Package(of_package.package, of_package.release, of_package.is_factory)
        return Reward("package", name, str(reward["python"]), weight, kwargs, package=package)
    if reward["python"] is not None:
        file, _, function = str(reward["python"]).rpartition(":")
        path = os.path.normpath(os.path.join(context.source.directory(("rewards", index, "python")), file))
        target = f"{os.path.basename(file)}:{function}"
        imports = {file: file_content(beside).sha256 for file, beside in modules_beside(path).items()}
        own = file_content(path).sha256
        return Reward("python", name, target, weight, kwargs, path, own, imports)
    if reward["model"] is not None:
        model = str(reward["model"])
        folder = local_path(model, context.source.directory(("rewards", index, "model")))
        content = _small_folder(folder) if folder is not None else None
        sha256 = content.sha256 if content is not None else None
        return Reward("model", name, folder or model, weight, kwargs, folder, sha256)
    if isinstance(judge := reward["judge"], dict):
        asked = {key: value for key, value in judge.items() if key != "base_url"}
        return Reward("judge", name, str(judge["base_url"]).rstrip("/"), weight, asked)
    length = LENGTH_OPTIONS.get(str(reward["name"]))
    if length is not None and kwargs.get(length) is None:
        kwargs[length] = context.value("GRPOConfig.max_completion_length")
    return Reward("shipped", name, str(reward["name"]), weight, kwargs)


def plan_set(name: str, context: Context) -> HeldOutSet:
    """A set of held-out rows. context: of a recipe that has only this set."""
    return HeldOutSet(name, plan_data(context, "evaluation"), tuple(rewards_of_set(context)), _passes(name, context))


def _passes(name: str, context: Context) -> Passes | None:
    """When a completion passes, as written or decided."""
    passes = context.mapping("evaluation.passes") or context.settings.under("evaluation.passes")
    if not passes and name and context.value("evaluation.pass_at"):
        passes = what_passes(context) or {}
    return Passes(str(passes["reward"]), float(str(passes["at_least"]))) if passes else None


def rows_of_sets(context: Context, whole: PlannedSetting) -> Iterator[PlannedSetting]:
    """Each value of each held-out set, including what passes if a different key sets it."""
    for name, of_set in held_out_sets(context):
        for key, value in context.mapping(SETS)[name].items():  # type: ignore[attr-defined]
            row, why = f"{SETS}.{name}.{key}", ""
            if key == "passes" and value is None and (passes := _passes(name, of_set)) is not None:
                value, why = asdict(passes), "what evaluation.passes says, else its only reward"
            if value is not None and value not in ([], {}):
                yield replace(whole, key=row, recipe_key=row, value=value, why=why)
