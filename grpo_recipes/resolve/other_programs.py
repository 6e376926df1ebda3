"""A file that was written for another program: known by its keys, and said once instead of key by key."""

from collections.abc import Mapping

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import listed
from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.resolve.schema_findings import MISSING_KEY
from grpo_recipes.schemas.accepted import section_keys
from grpo_recipes.schemas.other_names import other_names
from grpo_recipes.yaml.compose import Source

TRL = "TRL or open-r1"
AXOLOTL = "axolotl"
# Keys that one program alone has at its top level.
OWN_KEYS = {
    "base_model": AXOLOTL,
    "actor_rollout_ref": "verl",
    "rlhf_type": "ms-swift",
    "finetuning_type": "LLaMA-Factory",
    "compute_environment": "accelerate",
}
_NAMING = frozenset(("model_name_or_path", "dataset_name", "dataset_mixture", "reward_funcs"))
_FEWEST = 3
_SHOWN = 4


def other_programs(source: Source) -> Finding | None:
    """The one finding for a file of another program, None for a recipe, also for one with keys of another program."""
    found = None if _is_meant_as_a_recipe(source.values) else _program([str(key) for key in source.values])
    if found is None:
        return None
    program, keys = found
    return Finding(
        MISSING_KEY,
        "error",
        f"this is a configuration of {program}, no recipe",
        "recipe",
        source.mark(("recipe",)),
        because=(f"it has {listed(keys, _SHOWN)}, and none of `recipe: 1`, model, dataset, rewards and training",),
        fix=way_to_a_recipe(program, source.file),
    )


def way_to_a_recipe(program: str, file: str) -> str:
    """How a file of another program becomes a recipe."""
    from shlex import quote  # only a file of another program pays for this import

    if program in (TRL, AXOLOTL):
        return f"grpo-run init --from {quote(file)} -o recipe.yaml"
    if program == "accelerate":
        return f"grpo-run init --from CONFIG --accelerate {quote(file)}, with the configuration that it launches"
    return "grpo-run init writes a small recipe; write the values of this file into it"


def _is_meant_as_a_recipe(values: Mapping[str, object]) -> bool:
    """Whether a file says that it is one, or has a section that is the format's own: `trl` is axolotl's, too."""
    own = section_keys().keys() - {"trl"}
    return "recipe" in values or any(name in own and isinstance(value, dict | list) for name, value in values.items())


def _program(keys: list[str]) -> tuple[str, list[str]] | None:
    """The program, and the keys that show it."""
    for key, program in OWN_KEYS.items():
        if key in keys:
            return program, [key]
    # What TRL's and open-r1's scripts read beside GRPOConfig: trl 1.16.0, ModelConfig and ScriptArguments; configs.py.
    of_scripts = other_names()["script_keys"]
    flat = [key for key in keys if key in of_scripts or key in classified_fields()]
    is_enough = len(flat) >= (_FEWEST if _NAMING.isdisjoint(flat) else _FEWEST - 1)
    return (TRL, flat) if is_enough and 2 * len(flat) > len(keys) else None
