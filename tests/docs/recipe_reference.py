"""docs/recipe-reference.md, made from the models of the recipe and the tables of what its keys become."""

import ast
import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.resolve.planning.build_plan import OF_THE_CHOICE, kind_of
from grpo_recipes.resolve.rename import target_key
from grpo_recipes.rules.catalog import rules
from grpo_recipes.schemas import export
from grpo_recipes.schemas.models import section_model, sections
from grpo_recipes.schemas.section import fields_by_key, is_required_key

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "recipe-reference.md"
EXAMPLES = Path(__file__).with_name("section_examples.yaml")
GUARDS = ROOT / "grpo_recipes" / "worker" / "guards"

# What a key becomes that is no field of a library's class: of each section, and of keys that are not like the others.
BECOMES = {
    "": "what grpo-run itself reads",
    "name": "the name of the run folder, `runs/NAME-TIME`",
    "description": "a line of the plan and of the model card",
    "extends": "nothing: a recipe is merged with its parents first; `recipe.yaml` of the run folder is the merged one",
    "model": "what the model is loaded with",
    "model.from_run": "the model that is loaded, its tokenizer, and the adapter that is merged or trained further",
    "lora.continue": "the tensors that the new adapter starts with",
    "tokenizer.chat_template_path": "the chat template of GRPOTrainer's tokenizer",
    "tokenizer.add_tokens": "tokens of that tokenizer, and rows of the model's embedding, before the trainer is made",
    "dataset": "GRPOTrainer's `train_dataset`",
    "dataset.reasoning_gym": "the rows that the package's dataset of these tasks makes",
    "dataset.images": "the column `images` of `train_dataset`",
    "dataset.max_pixels": "the size of these images",
    "dataset.filter": "the rows of `train_dataset`",
    "dataset.max_prompt_tokens": "the rows of `train_dataset`; with `over: cut` `GRPOConfig.max_prompt_length`",
    "dataset.shuffle_seed": "the order of those rows, before `max_rows`",
    "dataset.sort_by": "the order of those rows, after `max_rows`",
    "datasets": "a part of GRPOTrainer's `train_dataset`, which has the prompts of the run in their order",
    "datasets.reasoning_gym": "the same as `dataset.reasoning_gym`, of one source",
    "datasets.max_prompt_tokens": "the same as `dataset.max_prompt_tokens`, of one source",
    "datasets.rewards": "None of the other `reward_funcs` for its rows",
    "rewards": "one of GRPOTrainer's `reward_funcs`",
    "rewards.weight": "`GRPOConfig.reward_weights`",
    "rewards.judge": "a function of `reward_funcs` that asks the endpoint",
    "tools": "one of GRPOTrainer's `tools`",
    "tools.timeout": "how long the worker waits for a call of the tool",
    "environment": "GRPOTrainer's `environment_factory`, which makes an object of the class",
    "environment.timeout": "how long the worker waits for a call of a method",
    "rollout": "GRPOTrainer's `rollout_func`",
    "preflight": "what `grpo-run preflight` plays instead of the model, `scripted_turns` of the plan",
    "preflight.turns": "a turn of `scripted_turns` in the plan",
    "evaluation": "grpo-run's own evaluation; TRL's is switched off",
    "evaluation.reasoning_gym": "the rows of that evaluation",
    "evaluation.sets": "the rows of that evaluation, by name",
    "evaluation.sets.prompt": "the prompts of these rows",
    "evaluation.sets.columns": "columns of these rows",
    "evaluation.sets.rewards": "those of GRPOTrainer's `reward_funcs` that are called on these rows",
    "evaluation.sets.passes": "the completions of these rows that pass@k counts, and the rows that are called right",
    "evaluation.decided_by": "the set that `keep_best` and `stop_after` go by, and that is first in `run.json`",
    "evaluation.use_vllm": "who generates held-out completions, `evaluation.generated_by` of the plan",
    "evaluation.passes": "the completions that pass@k counts, and the rows that are called right",
    "evaluation.keep_best": "the checkpoint that stays in `checkpoints/` and whose model is `final/`",
    "evaluation.stop_after": "an end of the training before its last step",
    "generation": "what generates",
    "generation.vllm_engine": "arguments of vLLM's engine, or of the server that the run starts",
    "generation.min_tokens": "`min_tokens` of vLLM, `min_new_tokens` of transformers",
    "generation.stop": "what ends a completion in the generator, and in TRL's mask, lengths and counts",
    "generation.stop_token_ids": "the same as `generation.stop`",
    "generation.include_stop_str_in_output": "the same as `generation.stop`",
    "generation.generation_kwargs": "arguments of vLLM's SamplingParams or transformers' GenerationConfig",
    "vllm_server": "the vLLM server that the run starts",
    "warm_start": "steps of the worker before `trainer.train()` takes its first one, `warm_start` of `plan.json`",
    "grpo.optimizer_steps_per_generation": "`GRPOConfig.steps_per_generation`, with the accumulation",
    "grpo.resample_groups": "`resample_groups` of `plan.json`, by which the worker calls TRL's generation again",
    "training.prompts_per_step": "with num_generations and the number of processes"
    " `GRPOConfig.gradient_accumulation_steps` and `GRPOConfig.steps_per_generation`, or the fields of older releases",
    "training.cut": "the number of processes and `GRPOConfig.per_device_train_batch_size`",
    "training.on_out_of_memory": "what `grpo-run` does after a run that failed",
    "distributed": "`accelerate.yaml` and `deepspeed.json` of the run folder",
    "distributed.fsdp": "`fsdp_config` in `accelerate.yaml` of the run folder",
    "launch": "`launch.sh` of the run folder, which calls `accelerate launch`",
    "launch.engine": "what starts `launch.sh`",
    "launch.environment": "variables that `launch.sh` sets",
    "slurm": "the head of `job.sbatch` in the run folder",
    "slurm.container": "`--container-image` and `--container-mounts` of `srun`, or `apptainer exec`, in `job.sbatch`",
    "logging.kept_completions": "`kept_completions` of `plan.json`, which the worker reads",
    "guards": "what a guard of the worker does, and when",
}

OPENING = """\
# Recipe reference

Every key of `recipe: 1`, generated by `make docs` from the models that check a recipe. `grpo-run explain KEY` prints a
key with its values in every release, and what set it in a recipe; [an editor](recipes.md#in-an-editor) shows the same
texts.

**Default** is the format's value, which a recipe without the key means on every stack; *required* keys have none.
"More" unfolds these:

- **Becomes**: a name such as `GRPOConfig.beta` is the library's class and field, under which `grpo-run plan` lists the
  value; anything else is what grpo-run makes of the key.
- **Kind**: an *experiment* value defines what is trained and never depends on the machine; a *machine* value may be
  decided if the recipe says `auto` or nothing; *bookkeeping* does not change what is learned.
- **Decided by** names the rules that fill in the value if the recipe leaves it open.

Numbers are written as in YAML, including `1e-5`. Write any list as `{extend: [...]}` to add to the parent's list; see
[Sharing recipes](sharing.md).
"""

TRL = """\
Any other field of GRPOConfig, by its own name. Its type and values are checked against the target. A field that has a
key above, or that grpo-run sets, is an error that names the right place. The table lists the fields that can be used
here with the format's default; without one, the installed release decides. `grpo-run explain NAME` has a page for each.
"""


# The page asks for the schema and the texts of a model once per key.
recipe_schema = cache(export.recipe_schema)
field_docs = cache(export.field_docs)


def section_examples() -> dict[str, str]:
    """An example of each section, as YAML."""
    examples: dict[str, str] = yaml.safe_load(EXAMPLES.read_text(encoding="utf-8"))
    return examples


def texts() -> dict[Path, str]:
    """What the file should hold."""
    return {PAGE: page()}


@cache
def page() -> str:
    """The whole page, in the order of the recipe."""
    properties = recipe_schema()["properties"]
    lines = [OPENING, "## The top level", ""]
    recipe = sections()[""]
    plain = [name for name, field in recipe.model_fields.items() if not _is_section(name) and name != "trl"]
    for name in plain:
        lines += _key(name, properties[name])
    for name in recipe.model_fields:
        if _is_section(name):
            lines += [f"## {name}", "", *_section_lines(name)]
    lines += ["## trl", "", TRL, *_example("trl"), *_trl_rows()]
    return "\n".join(lines)


def _is_section(name: str) -> bool:
    return name in sections() and bool(name)


def _section_lines(section: str) -> list[str]:
    model = sections()[section]
    properties = recipe_schema()["$defs"][model.__name__]["properties"]
    said = field_docs(sections()[""]).get(section, "")
    lines = []
    if "." not in section:
        lines = [" ".join(f"{said} {model.__doc__ or ''}".split()), "", *_example(section)]
    for name, field in fields_by_key(model).items():
        inner = f"{section}.{name}"
        if section_model(field.annotation) is None:
            lines += _key(inner, properties[name])
        else:
            default = field.get_default(call_default_factory=True)
            kinds = {list: ("a list of sections", "`[]`"), dict: ("a map of sections by name", "`{}`")}
            kind, default = kinds.get(type(default), ("a section, or `null`", "`null`"))
            meaning = " ".join(f"{field_docs(model)[name]} {section_model(field.annotation).__doc__ or ''}".split())
            lines += [f"### `{inner}`", "", meaning, "", *_facts_of(inner, kind, default), ""]
            lines += _section_lines(inner)
    return lines


def _key(key: str, schema: dict[str, Any]) -> list[str]:
    section, _, name = key.rpartition(".")
    model = sections()[section]
    field = fields_by_key(model)[name]
    default = "*required*" if is_required_key(field) else f"`{_yaml(field.get_default(call_default_factory=True))}`"
    text = field_docs(model).get(name) or model.__doc__ or ""
    return [f"### `{key}`", "", text, "", *_facts_of(key, type_words(schema), default), ""]


def _example(section: str) -> list[str]:
    example = section_examples().get(section)
    return [] if example is None else ["```yaml", *example.splitlines(), "```", ""]


def _facts_of(key: str, kind: str, default: str) -> list[str]:
    """What a key is, below its meaning: type and default, and folded what it becomes."""
    lines = [f"- Type: {kind}", f"- Default: {default}", "", "<details><summary>More</summary>", ""]
    target = target_key(key)
    lines.append(f"- Becomes: {_becomes(key) if target in (None, key) else f'`{target}`'}")
    chooses = "; experiment with keep_best or stop_after" if key in OF_THE_CHOICE else ""
    lines.append(f"- Kind: {kind_of(target or key)}{chooses}")
    owners = [_link(rule.id) for rule in rules() if (target or key) in rule.owns]
    if owners:
        lines.append(f"- Decided by: {', '.join(owners)}")
    return [*lines, "", "</details>"]


def _becomes(key: str) -> str:
    """What grpo-run makes of a key that is no field of a library's class."""
    section, _, name = key.rpartition(".")
    guard = GUARDS / f"{name}.py"
    if section == "guards" and guard.exists():
        body = ast.parse(guard.read_text(encoding="utf-8")).body
        ids = [node.value for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ID"]
        return f"what is done by the guard {_link(ast.literal_eval(ids[0]))}"
    return BECOMES.get(key) or BECOMES.get(section) or _becomes(section)


def _link(rule_id: str) -> str:
    return f"[{rule_id}](rules/{rule_id[:3]}.md#{rule_id.lower()})"


def type_words(schema: dict[str, Any]) -> str:
    """The type of a value in words: "a whole number, at least 1, or `auto`"."""
    if "anyOf" in schema:
        return ", or ".join(dict.fromkeys(type_words(one) for one in schema["anyOf"] if not _is_extension(one)))
    if "enum" in schema:
        return "one of " + ", ".join(f"`{_yaml(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{_yaml(schema['const'])}`"
    if schema.get("type") == "array":
        items = schema.get("items", {})
        return "a list of rewards" if "$ref" in items else f"a list; each {type_words(items)}"
    return _plain_words(schema)


def _plain_words(schema: dict[str, Any]) -> str:
    words = {
        "string": "a text",
        "integer": "a whole number",
        "number": "a number",
        "boolean": "`true` or `false`",
        "null": "`null`",
        "object": "a map",
    }[schema.get("type", "object")]
    bounds = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    limits = [f"{said} {_yaml(schema[name])}" for name, said in bounds.items() if name in schema]
    if "pattern" in schema:
        limits.append(f"matching `{schema['pattern']}`".replace("|", "\\|"))
    return ", ".join([words, *limits])


def _is_extension(schema: dict[str, Any]) -> bool:
    return list(schema.get("properties", {})) == ["extend"]


def _trl_rows() -> list[str]:
    """The fields without a home of their own that a recipe may write."""
    rows = ["| field | kind | value of the format |", "|---|---|---|"]
    for field in classified_fields().values():
        if field.home is None and field.owner is None:
            value = f"`{_yaml(field.value)}`" if field.has_value else "the release's"
            rows.append(f"| `{field.name}` | {field.kind} | {value} |")
    return [*rows, ""]


def _yaml(value: object) -> str:
    """The value as it is written in a recipe."""
    return json.dumps(value, ensure_ascii=False, default=str)
