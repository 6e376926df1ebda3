"""Converts one configuration, with the files next to it, to a recipe."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.facts.released.shipped import removal
from grpo_recipes.resolve.recipe_phase import OWN_KEYS, own_key, way_to_a_recipe
from grpo_recipes.schemas.other_names import other_names
from grpo_recipes.takeover.basis.context import Dialect, Situation, recipe_name
from grpo_recipes.takeover.basis.draft import Draft, Given, Row
from grpo_recipes.takeover.basis.read import read_mapping, table_of
from grpo_recipes.takeover.basis.release import Release, detect_release, parse_release
from grpo_recipes.takeover.basis.write import recipe_text
from grpo_recipes.takeover.formats.accelerate import NO_FSDP, WITHOUT_FSDP, take_accelerate
from grpo_recipes.takeover.formats.axolotl import as_trl_keys, is_axolotl
from grpo_recipes.takeover.formats.deepspeed import take_deepspeed
from grpo_recipes.takeover.old_defaults import disagreements, refuse_what_cannot_be_kept, write_defaults
from grpo_recipes.takeover.sections.batch import keep_the_cut, take_batch
from grpo_recipes.takeover.sections.dataset import take_dataset
from grpo_recipes.takeover.sections.evaluation import take_evaluation, take_generation
from grpo_recipes.takeover.sections.fields import script_keys, take_fields
from grpo_recipes.takeover.sections.model import take_model
from grpo_recipes.takeover.sections.rewards import take_rewards, texts, write_stubs

PROCESSES = "--num-processes"
PROGRAMS = {"trl": "trl grpo", "open_r1": "open-r1", "axolotl": "axolotl"}


@dataclass(frozen=True, slots=True)
class Takeover:
    """The result of a conversion.

    files: to write next to the recipe, by name. stubs: functions in them for their author to fill in. moved: see
    `disagreements`.
    """

    text: str
    rows: tuple[Row, ...]
    files: Mapping[str, str]
    stubs: tuple[str, ...]
    release: Release
    dialect: Dialect
    moved: Mapping[str, str]

    @property
    def is_complete(self) -> bool:
        """Whether nothing was refused."""
        return all(row.fate != "refused" for row in self.rows)


def take_over(
    config: str,
    *,
    accelerate: str | None = None,
    deepspeed: str | None = None,
    written_for: str | None = None,
    processes: int | None = None,
    output: str | None = None,
) -> Takeover:
    """Converts a configuration to a recipe. Raises Refusal.

    processes: the value of `accelerate launch --num_processes`, which overrides its file. output: the path of the
    future recipe, None if it is printed.
    """
    draft = Draft()
    values = read_mapping(config, draft)
    dialect = _dialect(values, config)
    given = as_trl_keys(values, draft) if dialect == "axolotl" else Given(values, draft)
    names = list(given.values)
    release = parse_release(written_for) if written_for else detect_release(names)
    recipe = Path(os.path.abspath(output or config))
    situation = Situation(given, draft, release, dialect, str(recipe.parent), recipe.stem, output is not None)
    _take_launch_file(situation, os.path.dirname(os.path.abspath(config)), accelerate, deepspeed, processes)
    _take_keys(situation)
    if situation.writes_files:
        write_stubs(situation, os.path.basename(config))
    program = f"{os.path.basename(config)} ({PROGRAMS[dialect]})"
    head = [f"Converted from {program}, as {release.name} read it", f"({release.how})."]
    return Takeover(
        recipe_text(draft, recipe_name(recipe.stem), head),
        tuple(draft.rows),
        draft.files,
        tuple(name for name in draft.stubs if situation.writes_files and name not in texts()["written"]),
        release,
        dialect,
        {} if written_for else disagreements(names, release),
    )


def _take_keys(situation: Situation) -> None:
    """Takes over every key, in the order of their dependencies: the machine is known before the batch."""
    take_model(situation)
    take_dataset(situation)
    take_rewards(situation)
    take_evaluation(situation)
    take_generation(situation)
    parts = take_batch(situation)
    take_fields(situation)
    write_defaults(situation)
    keep_the_cut(situation, parts)
    refuse_what_cannot_be_kept(situation)


def _dialect(values: Mapping[str, object], config: str) -> Dialect:
    if "recipe" in values:
        raise Refusal.of(f"{config}: it is already a recipe", fix=f"grpo-run validate {shlex.quote(config)}")
    if is_axolotl(values):
        return "axolotl"
    other, because = own_key(values), ""
    if other is not None:
        because = f"it has {other}; init --from reads those of TRL, open-r1 and axolotl"
    elif values and not any(name in script_keys() or removal("GRPOConfig", name) for name in values):
        because = f"TRL, open-r1 and axolotl have none of its keys: {join_items(list(values))}"
    if because:
        program = OWN_KEYS[other] if other is not None else ""
        message = f"{config}: this is a configuration of {program or 'an unknown program'}"
        raise Refusal.of(message, because=because, fix=way_to_a_recipe(program, config))
    return "open_r1" if _is_open_r1(values, values.get("reward_funcs")) else "trl"


def _is_open_r1(values: Mapping[str, object], rewards: object) -> bool:
    """Whether a flat configuration is open-r1's, by its own keys or its rewards' names."""
    own = {*table_of("trl")["open_r1_keys"], *table_of("trl")["options_of_rewards"]}
    names = {name for name in rewards if isinstance(name, str)} if isinstance(rewards, list) else set()
    return bool(own & values.keys() or names & other_names()["rewards"]["open_r1"].keys())


def _take_launch_file(
    situation: Situation, folder: str, accelerate: str | None, deepspeed: str | None, processes: int | None
) -> None:
    """Takes over what the configuration is launched with: keys, files, and the processes, which override both."""
    given, draft = situation.given, situation.draft
    names = table_of("trl")["accelerate_launch"]  # what TRL's command line passes to `accelerate launch`
    launch = {name: given.take(name) for name in names if name in given and name != "accelerate_config"}
    if processes is not None and "num_processes" in launch:
        del launch["num_processes"]
        given.emulate_key("num_processes", f"{PROCESSES} wins")
    if "accelerate_config" in given:
        _take_accelerate_config(situation, folder, processes)
    take_accelerate(situation, Given(launch, draft), folder)
    if accelerate is not None:
        _accelerate_file(situation, accelerate, processes)
    elif processes is not None:
        take_accelerate(situation, Given({"num_processes": processes}, draft, {"num_processes": PROCESSES}), folder)
    if "deepspeed" in given:
        value = given.values["deepspeed"]
        if value in (None, "") or deepspeed is not None:
            given.map_key("deepspeed", because="--deepspeed is that file" if value else "")
        elif path := given.file("deepspeed", folder, "--deepspeed", "distributed.strategy"):
            take_deepspeed(situation, path)
    if deepspeed is not None:
        take_deepspeed(situation, deepspeed)


def _take_accelerate_config(situation: Situation, folder: str, processes: int | None) -> None:
    """Takes over the file that `accelerate_config` names, or one of TRL's own."""
    given, key = situation.given, "accelerate_config"
    name = given.values[key]
    strategy = table_of("accelerate")["named"].get(str(name))
    if name is None:
        given.map_key(key)
    elif name == "fsdp1" and situation.release.is_in(WITHOUT_FSDP):
        given.refuse_key(key, NO_FSDP, "distributed.strategy")
    elif strategy is not None:
        given.map_key(key, "distributed.strategy", strategy, "TRL's own file of this name")
    elif path := given.file(key, folder, "--accelerate", "distributed"):
        _accelerate_file(situation, path, processes)


def _accelerate_file(situation: Situation, path: str, processes: int | None) -> None:
    block = read_mapping(path, situation.draft, "accelerate: ")
    names = {key: f"accelerate: {key}" for key in block}
    if processes is not None:
        block["num_processes"], names["num_processes"] = processes, PROCESSES
    take_accelerate(situation, Given(block, situation.draft, names), os.path.dirname(os.path.abspath(path)))
