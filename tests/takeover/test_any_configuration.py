"""Whatever a configuration holds, each of its keys gets a row, and its recipe can be read."""

import json
import random
from pathlib import Path

import pytest
from taken import as_yaml, recipe_of, row, taken

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.schemas.other_names import other_names
from grpo_recipes.takeover.basis.read import table_of
from grpo_recipes.takeover.takeover import take_over

STRANGE = (None, True, False, 0, 1, -1, 2.5, 1e400, "", "no", "auto", "{", "[]", "a: b # c", "\u2028é\x07", [], [None])
STRANGE += ({}, {"a": {"b": [1]}}, [{"path": 3}], ["x", 1], {"datasets": [{"id": None}]}, 10**30, "1e-5", "~/x", "/")


def _trl_names() -> list[str]:
    tables = table_of("trl")
    own = [*tables["script_arguments"], *tables["model_config"], *tables["open_r1_keys"], *tables["accelerate_launch"]]
    return [*classified_fields(), *own, "warmup_ratio", "evaluation_strategy", "recipe_of_mine", "7"]


def _axolotl_names() -> list[str]:
    tables = table_of("axolotl")
    renamed = [name for name, row in other_names()["keys"].items() if "axolotl" in row["tools"]]
    own = [*renamed, *tables["same"], *tables["answers"], *tables["where_true"], "vllm", "adapter", "datasets"]
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


def test_arguments_of_a_script_do_not_say_whether_it_passes_an_adapter(tmp_path: Path) -> None:
    """GRPOConfig of a script, written as JSON: its peft_config is an argument of the trainer, and not in there."""
    of_a_script = tmp_path / "grpo.yaml"
    of_a_script.write_text("learning_rate: 1.0e-5\nnum_generations: 4\n")
    one = take_over(str(of_a_script), written_for="trl==1.16.0", output=str(tmp_path / "recipe.yaml"))
    assert row(one, "peft_config").fate == "refused"
    whole = taken(tmp_path, as_yaml(learning_rate=1e-5))
    assert "peft_config" not in [each.key for each in whole.rows], "a configuration of TRL's own script names its model"


def test_the_release_that_a_key_is_gone_after_is_not_called_the_newest(tmp_path: Path) -> None:
    old, new = (taken(tmp_path, as_yaml(**keys), None).text for keys in ({"warmup_ratio": 0.1}, {"warmup_steps": 3}))
    assert "(the newest that takes all its keys; --written-for chooses a different one)" in old.replace("\n# ", " ")
    assert "(the newest; --written-for chooses a different one)" in new.replace("\n# ", " ")
