"""The merged recipe as a standalone file that means the same in any folder."""

import copy
import re
from dataclasses import replace
from typing import Any

import yaml

from grpo_recipes.contract.findings.finding import Path
from grpo_recipes.contract.plan import Plan, PlannedSetting
from grpo_recipes.user_files.local_files import local_path
from grpo_recipes.user_files.reward_imports import names_module
from grpo_recipes.yaml.compose import Source
from grpo_recipes.yaml.page import visible_text

PATH_KEYS: tuple[Path, ...] = (
    ("model", "from_run"),
    ("model", "model_name_or_path"),
    ("tokenizer", "chat_template_path"),
    ("dataset", "path"),
    ("evaluation", "path"),
)


def merged_recipe(source: Source) -> dict[str, Any]:
    """The merged values with local paths made absolute."""
    values: dict[str, Any] = copy.deepcopy(source.values)
    for section, key in PATH_KEYS:
        block = values.get(str(section))
        if isinstance(block, dict) and isinstance(block.get(key), str):
            directory = source.directory((section, key))
            block[key] = local_path(block[key], directory) or block[key]
    evaluation = values.get("evaluation")
    sets = evaluation.get("sets") if isinstance(evaluation, dict) else None
    for name, evaluation_set in sets.items() if isinstance(sets, dict) else ():
        if isinstance(evaluation_set, dict) and isinstance(evaluation_set.get("path"), str):
            directory = source.directory(("evaluation", "sets", name, "path"))
            evaluation_set["path"] = local_path(evaluation_set["path"], directory) or evaluation_set["path"]
    sources = values.get("datasets")
    for index, item in enumerate(sources if isinstance(sources, list) else ()):
        if isinstance(item, dict) and isinstance(item.get("path"), str):
            directory = source.directory(("datasets", index, "path"))
            item["path"] = local_path(item["path"], directory) or item["path"]
    for section in ("rewards", "tools", "environments"):
        items = values.get(section)
        for index, item in enumerate(items if isinstance(items, list) else ()):
            for key in ("python", "model"):
                if isinstance(item, dict) and isinstance(item.get(key), str) and not _is_of_package(key, item):
                    item[key] = _path_of(item[key], key, source.directory((section, index, key)))
    for section in ("environment", "rollout"):
        block = values.get(section)
        if isinstance(block, dict) and isinstance(block.get("python"), str):
            block["python"] = _path_of(block["python"], "python", source.directory((section, "python")))
    return values


def _is_of_package(key: str, item: dict[str, Any]) -> bool:
    return key == "python" and names_module(item[key])


def _path_of(value: str, key: str, directory: str) -> str:
    if key == "model":
        return local_path(value, directory) or value
    file, colon, function = value.rpartition(":")
    path = local_path(f"./{file}" if not file.startswith(("/", "~", ".")) else file, directory)
    return f"{path}{colon}{function}"


def merged_recipe_text(source: Source) -> str:
    """The merged recipe as YAML that the strict reader reads back to the same values."""
    files = ", ".join(visible_text(file, 200) for file in source.files)  # a name may contain a line break
    head = f"# Merged from {files}; local paths are absolute.\n"
    return head + recipe_yaml(merged_recipe(source))


def recipe_yaml(values: dict[str, Any]) -> str:
    """Values as YAML that the strict reader reads back to the same values."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    """Quotes every text that a YAML 1.2 reader could take for something else; PyYAML only knows YAML 1.1."""


# Anything that begins like a number, and all words that some reader takes for a value.
_PLAIN = re.compile(
    r"(?!(y|n|yes|no|on|off|true|false|null|none|nan|inf|infinity)$)(\.{0,2}/)?[a-z_][\w./@ -]*", re.IGNORECASE
)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if _PLAIN.fullmatch(value) else "'")


_Dumper.add_representer(str, _text)

ORIGIN = "--smoke"
STEPS = 2


def smoke_plan(plan: Plan) -> Plan:
    """The plan as a trial. Changed values have the origin --smoke; everything else is the recipe's."""
    rows = prompts_needed(plan)
    if plan.data.max_rows is not None and not plan.sources:
        rows = min(rows, plan.data.max_rows)
    changed = {"max_steps": STEPS, "save_strategy": "no"}
    compared = {name: changed.get(name, value) for name, value in plan.expect.arguments.items()}
    return replace(
        plan,
        arguments=replace(plan.arguments, GRPOConfig=plan.arguments.GRPOConfig | changed),
        expect=replace(plan.expect, arguments=compared),
        data=replace(plan.data, max_rows=rows),
        sources=tuple(replace(data, max_rows=min(rows, data.max_rows or rows)) for data in plan.sources),
        evaluation=None,
        warm_start=None if plan.warm_start is None else replace(plan.warm_start, steps=STEPS, warmup_steps=0),
        settings=_settings(plan.settings, rows),
        smoke=True,
    )


def prompts_needed(plan: Plan) -> int:
    """The prompts of two optimizer steps, in whole generations; each prompt of TRL's batch stands for its group."""
    generations = -(-STEPS * plan.batch.accumulation // plan.batch.steps_per_generation)
    return generations * plan.batch.prompts


def _settings(settings: tuple[PlannedSetting, ...], rows: int) -> tuple[PlannedSetting, ...]:
    """The settings with those of the trial in their places, and without those of an evaluation."""
    trial = {
        "GRPOConfig.max_steps": (STEPS, "the proofs need two steps"),
        "GRPOConfig.save_strategy": ("no", "a trial leaves no checkpoint"),
        "dataset.max_rows": (rows, "the prompts of two steps"),
    }
    if any(setting.key == "warm_start.steps" for setting in settings):
        trial |= {"warm_start.steps": (STEPS, "two steps show whether they can be taken")}
    for_trial = []
    for setting in settings:
        value, why = trial.pop(setting.key, (None, ""))
        if why:
            for_trial.append(replace(setting, value=value, origin=ORIGIN, why=why))
        elif not setting.key.startswith("evaluation."):
            for_trial.append(setting)
    return (*for_trial, *(PlannedSetting(key, value, ORIGIN, why) for key, (value, why) in trial.items()))
