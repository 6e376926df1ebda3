"""`--smoke`: the same plan for two steps on the prompts they need, without evaluation and without a model left."""

from dataclasses import replace

from grpo_recipes.contract.plan import Plan, PlannedSetting

ORIGIN = "--smoke"
STEPS = 2


def smoke_plan(plan: Plan) -> Plan:
    """The plan as a trial. What differs has the origin --smoke; everything else is the recipe's."""
    rows = prompts_needed(plan)
    if plan.data.max_rows is not None:
        rows = min(rows, plan.data.max_rows)
    changed = {"max_steps": STEPS, "save_strategy": "no"}
    compared = {name: changed.get(name, value) for name, value in plan.expect.arguments.items()}
    return replace(
        plan,
        arguments=replace(plan.arguments, GRPOConfig=plan.arguments.GRPOConfig | changed),
        expect=replace(plan.expect, arguments=compared),
        data=replace(plan.data, max_rows=rows),
        evaluation=None,
        settings=_settings(plan.settings, rows),
        smoke=True,
    )


def prompts_needed(plan: Plan) -> int:
    """The prompts of two optimizer steps, whole generations; each prompt of TRL's batch stands for its group."""
    generations = -(-STEPS * plan.batch.accumulation // plan.batch.steps_per_generation)
    return generations * plan.batch.prompts


def _settings(settings: tuple[PlannedSetting, ...], rows: int) -> tuple[PlannedSetting, ...]:
    """The settings with those of the trial in their places, an evaluation's left out."""
    trial = {
        "GRPOConfig.max_steps": (STEPS, "the proofs need two steps"),
        "GRPOConfig.save_strategy": ("no", "a trial leaves no checkpoint"),
        "dataset.max_rows": (rows, "the prompts of two steps"),
    }
    kept = []
    for setting in settings:
        value, why = trial.pop(setting.key, (None, ""))
        if why:
            kept.append(replace(setting, value=value, origin=ORIGIN, why=why))
        elif not setting.key.startswith("evaluation."):
            kept.append(setting)
    return (*kept, *(PlannedSetting(key, value, ORIGIN, why) for key, (value, why) in trial.items()))
