"""Whatever a configuration holds, each of its keys gets a row, and its recipe can be read."""

import json
import random
from pathlib import Path

import pytest
from taken import recipe_of, taken

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.schemas.other_names import other_names
from grpo_recipes.takeover.basis.read import table_of

STRANGE = (None, True, False, 0, 1, -1, 2.5, 1e400, "", "no", "auto", "{", "[]", "a: b # c", "\u2028é\x07", [], [None])
STRANGE += ({}, {"a": {"b": [1]}}, [{"path": 3}], ["x", 1], {"datasets": [{"id": None}]}, 10**30, "1e-5", "~/x", "/")


def _trl_names() -> list[str]:
    tables = table_of("answers")
    own = [*tables["script_arguments"], *tables["model_config"], *tables["open_r1_keys"], *tables["accelerate_launch"]]
    return [*classified_fields(), *own, "warmup_ratio", "evaluation_strategy", "recipe_of_mine", "7"]


def _axolotl_names() -> list[str]:
    tables = table_of("axolotl")
    renamed = [name for name, row in other_names()["keys"].items() if "axolotl" in row["tools"]]
    own = [*renamed, *tables["same"], *tables["answers"], *tables["attention"], "vllm", "adapter", "datasets"]
    return [*own, "chat_template", "tokens", "bf16", "fp16", "tf32", "gradient_checkpointing"]


def _accelerate_names() -> list[str]:
    own = ["num_processes", "deepspeed_config", "fsdp_config", "gpu_ids", "distributed_type", "mixed_precision"]
    return [*table_of("accelerate")["answers"], *own, "use_cpu", "num_machines"]


def _some(draw: random.Random, names: list[str], count: int) -> dict[str, object]:
    return {name: draw.choice(STRANGE) for name in draw.sample(names, count)}


@pytest.mark.parametrize("seed", range(25))
def test_strange_values_of_trl_are_answered(seed: int, tmp_path: Path) -> None:
    values = _some(random.Random(seed), _trl_names(), 60)
    one = taken(tmp_path, json.dumps({"reward_funcs": ["think_format_reward"], **values}))
    assert set(values) - {row.key.partition(".")[0].partition(" ")[0] for row in one.rows} == set()
    recipe_of(one)


@pytest.mark.parametrize("seed", range(25))
def test_strange_values_of_axolotl_and_of_files_are_answered(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    tables = table_of("axolotl")
    values = _some(draw, _axolotl_names(), 40)
    inside = _some(draw, [*tables["trl"], *tables["in_trl"]], 20)
    beside = _some(draw, _accelerate_names(), 15)
    stages = {"zero_optimization": _some(draw, ["stage", "offload_param", "typo"], 2), "bf16": draw.choice(STRANGE)}
    one = taken(
        tmp_path,
        json.dumps({**values, "trl": inside, "base_model": "owner/model"}),
        accelerate=json.dumps(beside),
        deepspeed=json.dumps(stages),
    )
    keys = {row.key for row in one.rows}
    first = {key.partition(".")[0].partition(" ")[0] for key in keys}
    assert set(values) - {"vllm"} - first == set()
    assert set(inside) - {key.split(".")[1] for key in keys if key.startswith("trl.")} == set()
    assert set(beside) - {key.split(": ")[1].partition(".")[0] for key in keys if "accelerate: " in key} == set()
    recipe_of(one)
