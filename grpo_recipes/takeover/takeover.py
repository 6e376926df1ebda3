"""Converts one configuration, with the files next to it, to a recipe."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.resolve.recipe_phase import OWN_KEYS, way_to_a_recipe
from grpo_recipes.takeover.basis.context import Dialect, Situation, recipe_name
from grpo_recipes.takeover.basis.draft import Draft, Given, Row
from grpo_recipes.takeover.basis.read import read_mapping, table_of
from grpo_recipes.takeover.basis.release import Release, declared_release, detected_release
from grpo_recipes.takeover.basis.write import recipe_text
from grpo_recipes.takeover.formats.accelerate import NO_FSDP, WITHOUT_FSDP, take_accelerate
from grpo_recipes.takeover.formats.axolotl import as_trl_keys, is_axolotl
from grpo_recipes.takeover.formats.deepspeed import take_deepspeed
from grpo_recipes.takeover.formats.open_r1 import is_open_r1, take_own_keys
from grpo_recipes.takeover.old_defaults import disagreements, refuse, refuse_what_cannot_be_kept, write_defaults
from grpo_recipes.takeover.sections.batch import take_batch
from grpo_recipes.takeover.sections.dataset import take_dataset
from grpo_recipes.takeover.sections.evaluation import take_evaluation, take_generation
from grpo_recipes.takeover.sections.fields import take_fields
from grpo_recipes.takeover.sections.model import take_model
from grpo_recipes.takeover.sections.rewards import take_rewards, write_stubs

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
    release = declared_release(written_for) if written_for else detected_release(names)
    place = os.path.abspath(output) if output else os.path.abspath(config)
    stem = Path(place).stem
    situation = Situation(given, draft, release, dialect, os.path.dirname(place), stem, output is not None)
    _take_all(situation, config, Beside(accelerate, deepspeed, processes))
    if situation.writes_files:
        write_stubs(situation, os.path.basename(config))
    moved = {} if written_for else disagreements(names, draft.values, release)
    name = recipe_name(stem if output else Path(config).stem)
    return Takeover(
        recipe_text(draft, name, _head(config, release, dialect)),
        tuple(draft.rows),
        draft.files,
        tuple(draft.stubs) if situation.writes_files else (),
        release,
        dialect,
        moved,
    )


def _dialect(values: Mapping[str, object], config: str) -> Dialect:
    if "recipe" in values:
        raise Refusal.of(f"{config}: it is already a recipe", fix=f"grpo-run validate {shlex.quote(config)}")
    if is_axolotl(values):
        return "axolotl"
    other = next((key for key in OWN_KEYS if key in values), None)
    if other is not None:
        raise Refusal.of(
            f"{config}: this is a configuration of {OWN_KEYS[other]}",
            because=f"it has {other}; init --from reads those of TRL, open-r1 and axolotl",
            fix=way_to_a_recipe(OWN_KEYS[other], config),
        )
    return "open_r1" if is_open_r1(values, values.get("reward_funcs")) else "trl"


@dataclass(frozen=True, slots=True)
class Beside:
    """What a configuration was launched with: files, and the number of processes, which overrides them."""

    accelerate: str | None
    deepspeed: str | None
    processes: int | None


def _take_all(situation: Situation, config: str, beside: Beside) -> None:
    """Takes over every key, in order of their dependencies: the machine before the batch."""
    given, draft = situation.given, situation.draft
    _launch_keys(situation, os.path.dirname(os.path.abspath(config)), beside)
    if beside.accelerate is not None:
        _accelerate_file(situation, beside.accelerate, beside.processes)
    elif beside.processes is not None:
        option = Given({"num_processes": beside.processes}, draft, {"num_processes": PROCESSES})
        take_accelerate(situation, option, os.path.dirname(os.path.abspath(config)))
    if "deepspeed" in given:
        _deepspeed_key(situation, config, given=beside.deepspeed is not None)
    if beside.deepspeed is not None:
        take_deepspeed(situation, beside.deepspeed)
    take_own_keys(situation)
    take_model(situation)
    take_dataset(situation)
    take_rewards(situation)
    take_evaluation(situation)
    take_generation(situation)
    take_batch(situation)
    take_fields(situation)
    write_defaults(situation)
    keep_the_cut(situation)
    refuse_what_cannot_be_kept(situation)


def _accelerate_file(situation: Situation, path: str, processes: int | None) -> None:
    block = read_mapping(path, situation.draft, "accelerate: ")
    names = {key: f"accelerate: {key}" for key in block}
    if processes is not None:
        block["num_processes"], names["num_processes"] = processes, PROCESSES
    take_accelerate(situation, Given(block, situation.draft, names), os.path.dirname(os.path.abspath(path)))


def _launch_keys(situation: Situation, folder: str, beside: Beside) -> None:
    """Takes over the keys that TRL's command line passes to `accelerate launch`."""
    tables = table_of("answers")
    given = situation.given
    launch = {name: given.take(name) for name in tables["accelerate_launch"] if name in given}
    if beside.processes is not None and "num_processes" in launch:
        del launch["num_processes"]
        given.emulated("num_processes", None, None, f"{PROCESSES} wins")
    named = launch.pop("accelerate_config", None)
    if named is None and "accelerate_config" in given.taken:
        given.mapped("accelerate_config", None)
    elif named is not None:
        strategy = table_of("accelerate")["named"].get(str(named))
        path = os.path.join(folder, str(named))
        if named == "fsdp1" and situation.release.is_in(WITHOUT_FSDP):
            given.refused("accelerate_config", NO_FSDP, "distributed.strategy")
        elif strategy is not None:
            given.mapped("accelerate_config", "distributed.strategy", strategy, "TRL's own file of this name")
        elif os.path.isfile(path):
            given.mapped("accelerate_config", None, because="its own keys follow")
            _accelerate_file(situation, path, beside.processes)
        else:
            given.refused("accelerate_config", "it is not next to this file: add --accelerate FILE", "distributed")
    take_accelerate(situation, Given(dict(launch), situation.draft), folder)


def _deepspeed_key(situation: Situation, config: str, *, given: bool) -> None:
    """Takes over the trainer's own `deepspeed`: a file, or its keys."""
    keys = situation.given
    value = keys.values["deepspeed"]
    path = os.path.join(os.path.dirname(os.path.abspath(config)), str(value))
    if value is None or value == "":
        keys.mapped("deepspeed", None)
    elif given:
        keys.mapped("deepspeed", None, because="--deepspeed is that file")
    elif isinstance(value, str) and os.path.isfile(path):
        keys.mapped("deepspeed", None, because="its own keys follow")
        take_deepspeed(situation, path)
    else:
        keys.refused("deepspeed", "it is not next to this file: add --deepspeed FILE", "distributed.strategy")


def _head(config: str, release: Release, dialect: Dialect) -> list[str]:
    return [
        f"Converted from {os.path.basename(config)} ({PROGRAMS[dialect]}), as {release.name} read it",
        f"({release.how}).",
    ]


LOSS, QUANTILE = "grpo.loss_type", "grpo.top_entropy_quantile"
CUT, SIZE = "training.cut", "training.per_device_train_batch_size"
BECAUSE = {
    LOSS: "bnpo divides by the tokens of a micro-batch",
    QUANTILE: "its threshold is that of a micro-batch",
}
UNKNOWN = "and the number of processes that share the batch is unknown: add --accelerate FILE or --num-processes N"


def keep_the_cut(situation: Situation) -> None:
    """Writes processes and micro-batch if the loss depends on them; refuses it if they are unknown."""
    values = situation.draft.values
    where = _depends(values)
    if where is None:
        return
    processes, size = situation.processes, values.get(SIZE)
    if not isinstance(size, int) or (processes or 1) * _parts(situation, size, processes or 1) == 1:
        return
    if processes is None:
        refuse(situation, where.partition(".")[2], where, f"{BECAUSE[where]}, {UNKNOWN}")
    else:
        _write(situation, where, processes, size)


def _depends(values: dict[str, object]) -> str | None:
    """The key of a value whose effect depends on how the batch is cut, None without one."""
    if values.get(LOSS) == "bnpo":
        return LOSS
    return QUANTILE if values.get(QUANTILE, 1.0) != 1.0 else None


def _parts(situation: Situation, size: int, processes: int) -> int:
    """The accumulation steps per optimizer step."""
    values = situation.draft.values
    accumulation = values.get("trl.gradient_accumulation_steps")
    if isinstance(accumulation, int):
        return accumulation
    prompts, generations = values.get("training.prompts_per_step"), situation.value("num_generations")
    if isinstance(prompts, int) and isinstance(generations, int):
        return prompts * generations // (size * processes)
    return 1


def _write(situation: Situation, where: str, processes: int, size: int) -> None:
    draft = situation.draft
    comment = draft.comments.pop(SIZE, "")
    del draft.values[SIZE]
    draft.values |= {f"{CUT}.processes": processes, f"{CUT}.{SIZE.rpartition('.')[2]}": size}
    because = f"{BECAUSE[where]}, so processes and micro-batch are part of the experiment"
    draft.comments[CUT] = "; ".join(text for text in (because, comment) if text)
    if all(row.where != (where,) for row in draft.rows):
        name = f"{where.partition('.')[2]} (the default of trl {situation.release.trl})"
        draft.rows.append(Row(name, draft.values[where], "emulated", (where, CUT), because))
    for index, row in enumerate(draft.rows):
        if row.where == (SIZE,):
            draft.rows[index] = Row(row.key, row.value, row.fate, (f"{CUT}.{SIZE.rpartition('.')[2]}",), row.because)
