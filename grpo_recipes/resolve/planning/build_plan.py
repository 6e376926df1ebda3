"""Phase 6, second half: the complete, checked settings become a Plan."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from grpo_recipes import __version__
from grpo_recipes.contract.findings.wording import flow
from grpo_recipes.contract.host.engines import ENGINES, SECTIONS, engine_for
from grpo_recipes.contract.plan import PLAN_FORMAT, Evaluation, Model, Plan, PlannedSetting
from grpo_recipes.contract.plan_machine import Batch, World
from grpo_recipes.contract.plan_sections import Guards, WarmStart
from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.expression import Expression, Passed, Unsaid
from grpo_recipes.resolve.planning.arguments import arguments, expect, plan_memory, sampling, vllm
from grpo_recipes.resolve.planning.made_by import digests_of_sources
from grpo_recipes.resolve.planning.planned_files import (
    plan_data,
    plan_model,
    plan_rewards,
    plan_set,
    plan_tokenizer,
    rows_of_sets,
)
from grpo_recipes.resolve.planning.planned_tools import (
    merges_other_modules,
    plan_ancestor,
    plan_environment,
    plan_environments,
    plan_rollout,
    plan_tools,
    turns_to_play,
)
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import machines
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.training_rows import SETS, held_out_sets
from grpo_recipes.rules._shared.vllms_gpu import starts_server
from grpo_recipes.stack.stack import to_json_value
from grpo_recipes.user_files.model_config import lora_parameter_count, parameter_count, read_model_config

MACHINE = ("batch", "world", "launch", "distributed", "shims", "vllm", "vllm_server", *SECTIONS)
OF_THE_MACHINE = (
    "model_init_kwargs.attn_implementation",
    "model_init_kwargs.device_map",
    "generation.vllm_engine",
    "generation.weight_sync",
    "training.on_out_of_memory",
)
# Mentioned by the reason of world.gpus.
UNSAID = ("world.num_nodes", "world.server_gpus", "world.all_gpus")
CONTINUE = "lora.continue"
MIXTURE = "datasets"
KEPT_COMPLETIONS = "logging.kept_completions"
RESAMPLE = "grpo.resample_groups"
_ADDRESS = ("launch.main_process_ip", "launch.main_process_port")
BATCH = ("GRPOConfig.per_device_train_batch_size", "GRPOConfig.gradient_accumulation_steps")
BOOKKEEPING = ("logging", "guards", "evaluation", "preflight", "name", "description", "recipe", "extends")

# Decides which weights the run outputs; a recipe without these keys uses those of the last step.
ENDS = ("evaluation.keep_best", "evaluation.stop_after")
# The sections that these keys depend on; without them the run only measures.
_ROWS = ("path", "name", "split", "max_rows", "reasoning_gym.size", "reasoning_gym.seed")
OF_THE_CHOICE = tuple(
    f"evaluation.{name}" for name in (*_ROWS, "sets", "decided_by", "every_steps", "greedy", "samples", "generated_by")
)


def build_plan(
    context: Context,
    expressed: Mapping[str, Expression],
    keys: Mapping[str, Passed],
    notes: tuple[str, ...],
    sources: Sequence[Context],
    held_out: Context,
) -> Plan:
    """The plan of checked settings. Local files are read for their sha256. sources: each source of a mixture as the
    `dataset`, and held_out: the context that judges its evaluation; or the context itself.

    expressed: how the target expresses the GRPOConfig values, by field. keys: the values to pass, by the target's key.
    notes: findings that did not refuse it.
    """
    passed = arguments(context, keys)
    model = plan_model(context)
    return Plan(
        plan=PLAN_FORMAT,
        grpo_recipes=__version__,
        name=context.text("name"),
        recipe=context.source.values,
        stack=to_json_value(context.stack),
        world=_world(context),
        batch=_batch(context),
        settings=plan_settings(context, expressed, passed.GRPOConfig),
        arguments=passed,
        model=model,
        tokenizer=plan_tokenizer(context, model),
        data=plan_data(sources[0], "dataset"),
        rewards=plan_rewards(context),
        tools=plan_tools(context),
        environment_class=plan_environment(context),
        environment_classes=plan_environments(context),
        rollout=plan_rollout(context),
        scripted_turns=turns_to_play(context),
        sandbox=context.text("launch.sandbox"),  # type: ignore[arg-type]
        evaluation=_evaluation(held_out),
        guards=Guards(**context.settings.under("guards")),  # type: ignore[arg-type]
        shims=dict(sorted(context.settings.under("shims").items())),
        expect=expect(context, passed.GRPOConfig, _trainable_parameters(context, model)),
        deepspeed=_deepspeed(context),
        fsdp=context.settings.under("distributed.fsdp") or None,
        environment=_environment(context),
        findings=notes,
        vllm=vllm(context),
        made_by=digests_of_sources(),
        recipe_file=os.path.abspath(context.source.file),
        job=_job(context),
        memory=plan_memory(context),
        ancestor=plan_ancestor(context),
        kept_completions=context.whole(KEPT_COMPLETIONS),
        resample_groups=context.whole(RESAMPLE),
        sources=tuple(plan_data(source, "dataset") for source in sources if "datasets.source" in source.settings),
        warm_start=WarmStart(**context.settings.under("warm_start")) if context.has_section("warm_start") else None,  # type: ignore[arg-type]
    )


def kind_of(key: str) -> str:
    """The kind of any settings key: experiment, machine or bookkeeping."""
    section, _, name = key.partition(".")
    if section == "GRPOConfig":
        return classified_fields()[name].kind
    if key in OF_THE_MACHINE or section in MACHINE:
        return "machine"
    return "bookkeeping" if section in BOOKKEEPING and key not in ENDS else "experiment"


def plan_settings(
    context: Context, expressions: Mapping[str, Expression], passed: Mapping[str, object]
) -> tuple[PlannedSetting, ...]:
    """Every value that the run uses, the experiment first. passed: the GRPOConfig arguments.

    A value that the release spells differently keeps the recipe's spelling, and the reason has the other.
    """
    rows = []
    chooses = any(context.value(key) not in (False, None) for key in ENDS)
    for key, setting in context.settings.items():
        owner, _, name = key.partition(".")
        if owner == "GRPOConfig" and not _is_used(setting, expressions.get(name), passed):
            continue
        if (owner == "guards" or key == KEPT_COMPLETIONS) and not setting.given:
            continue  # plan.json has a separate section for them
        setting = setting._replace(value=context.source.values.get(key) or []) if key == MIXTURE else setting
        if owner == "dataset" and context.items(MIXTURE):
            continue  # a mixture has no such section
        if key in UNSAID or (owner == "vllm_server" and not starts_server(context)):
            continue
        if (owner in SECTIONS and SECTIONS[owner] != _engine(context)) or (key in _ADDRESS and not setting.given):
            continue
        if key in (CONTINUE, RESAMPLE, *ENDS) and setting.value in (False, None):
            continue  # the value of a recipe without the key
        if setting.value is None or (not setting.given and setting.value in ([], {}, "", "auto")):
            continue
        of_key = [_row(key, setting, expressions.get(name) if owner == "GRPOConfig" else None)]
        if key == RESAMPLE:
            of_key = [
                replace(of_key[0], why=f"a step generates and rewards up to {1 + context.whole(key)} times as much")
            ]
        if key == SETS:
            of_key = list(rows_of_sets(context, of_key[0]))
        rows += [replace(row, kind="experiment") for row in of_key] if chooses and key in OF_THE_CHOICE else of_key
    written = {row.key for row in rows} | {
        expression.key for expression in expressions.values() if isinstance(expression, Passed)
    }
    for name, value in passed.items():
        if f"GRPOConfig.{name}" not in written:
            rows.append(_row(f"GRPOConfig.{name}", Setting(f"GRPOConfig.{name}", value, "grpo-run"), None))
    order = {"experiment": 0, "machine": 1, "bookkeeping": 2}
    return tuple(sorted(rows, key=lambda row: order[row.kind]))


def _is_used(setting: Setting, expression: Expression | None, passed: Mapping[str, object]) -> bool:
    """Whether a GRPOConfig value reaches the run: passed under any name, or the release's own behaviour."""
    name = setting.key.partition(".")[2]
    by_itself = isinstance(expression, Unsaid) and (setting.given or kind_of(setting.key) == "experiment")
    return name in passed or isinstance(expression, Passed) or by_itself


def _row(key: str, setting: Setting, expression: Expression | None) -> PlannedSetting:
    reasons = [setting.why] if setting.why else []
    if isinstance(expression, Passed) and expression.because:
        reasons.append(f"passed as {expression.key.partition('.')[2]} {flow(expression.value)}: {expression.because}")
    elif isinstance(expression, Unsaid):
        reasons.append(f"not passed: {expression.because}")
    return PlannedSetting(
        key=key,
        value=setting.value,
        origin=setting.origin,
        why="; ".join(reasons),
        recipe_key=".".join(map(str, setting.path or ())),
        kind=kind_of(key),  # type: ignore[arg-type]
    )


def _world(context: Context) -> World:
    return World(
        engine=_engine(context),
        num_nodes=context.whole("world.num_nodes"),
        num_processes=context.whole("world.num_processes"),
        device=context.text("world.device"),  # type: ignore[arg-type]
        strategy=context.text("distributed.strategy"),  # type: ignore[arg-type]
        main_process_ip=context.value("launch.main_process_ip"),  # type: ignore[arg-type]
        main_process_port=context.whole("launch.main_process_port"),
    )


def _batch(context: Context) -> Batch:
    processes, micro_batch = context.whole("world.num_processes"), context.whole(BATCH[0])
    accumulation, num_generations = context.whole(BATCH[1]), context.whole("GRPOConfig.num_generations")
    at_once, generation = micro_batch * processes, context.value("GRPOConfig.generation_batch_size")
    steps = context.value("GRPOConfig.steps_per_generation")
    of_generation = generation // at_once if isinstance(generation, int) else 0
    feeds = steps if isinstance(steps, int) else of_generation or accumulation
    return Batch(micro_batch, accumulation, feeds, num_generations, max(1, feeds * at_once // num_generations))


def _engine(context: Context) -> str:
    return engine_for(context.text("launch.engine"), machines(context))


def _job(context: Context) -> dict[str, object]:
    section = ENGINES[_engine(context)].section
    if section is None:
        return {}
    job: dict[str, Any] = {"gpus_per_node": context.whole("world.all_gpus")}
    for name, value in context.settings.under(section).items():
        outer, _, inner = name.partition(".")
        if inner:
            job.setdefault(outer, {})[inner] = value
        else:
            job[name] = value
    return job


def _trainable_parameters(context: Context, model: Model) -> int | None:
    config = read_model_config(model.path) if model.source == "folder" else None
    if config is None or context.value("tokenizer.add_tokens") or merges_other_modules(context):
        return None
    if not context.has_section("lora"):
        return parameter_count(config)
    lora = context.settings.under("LoraConfig")
    plain = {"r", "lora_alpha", "lora_dropout", "target_modules", "bias"}
    changed = [k for k in lora if k not in plain]
    if changed or lora["bias"] != "none":
        return None
    return lora_parameter_count(config, lora["r"], lora["target_modules"])  # type: ignore[arg-type]


def _evaluation(context: Context) -> Evaluation | None:
    if not context.has_section("evaluation"):
        return None
    first, *others = (plan_set(name, of_set) for name, of_set in held_out_sets(context))
    return Evaluation(
        data=first.data,
        at_start=bool(context.value("evaluation.at_start")),
        every_steps=context.whole("evaluation.every_steps"),
        greedy=bool(context.value("evaluation.greedy")),
        batch_size=context.whole("GRPOConfig.per_device_train_batch_size"),
        sampling=sampling(context),
        max_prompt_length=context.value("GRPOConfig.max_prompt_length"),  # type: ignore[arg-type]
        samples=context.whole("evaluation.samples"),
        pass_at=tuple(context.value("evaluation.pass_at")),  # type: ignore[arg-type]
        passes=first.passes,
        keep_best=context.value("evaluation.keep_best") is True,
        stop_after=context.value("evaluation.stop_after"),  # type: ignore[arg-type]
        generated_by="vllm" if context.value("evaluation.generated_by") == "vllm" else "transformers",
        name=first.name,
        rewards=first.rewards,
        others=tuple(others),
    )


def _deepspeed(context: Context) -> dict[str, object] | None:
    strategy = context.text("distributed.strategy")
    if not strategy.startswith("zero"):
        return None
    return {
        "zero_stage": int(strategy[-1]),
        "offload_optimizer_device": context.value("distributed.offload_optimizer_device"),
        "offload_param_device": context.value("distributed.offload_param_device"),
        "torch_autocast": context.value("deepspeed.torch_autocast"),
        "extra": dict(context.mapping("distributed.deepspeed")),
    }


def _environment(context: Context) -> dict[str, str]:
    environment = {k: str(v) for k, v in context.mapping("launch.environment").items()}
    if context.value("world.device") == "cpu" and _deepspeed(context) is not None:
        environment.setdefault("DS_ACCELERATOR", "cpu")
    return environment
