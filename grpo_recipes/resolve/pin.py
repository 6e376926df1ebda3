"""Phase 4, pin: what defines the experiment is passed in full, so that no release's own default decides."""

from grpo_recipes.facts.classified import classified_fields, matters
from grpo_recipes.rules._shared.settings import FORMAT_ORIGIN, Setting, Settings

# What the table's conditions name besides fields: their names there, and the settings.
OTHER_VALUES = {
    "processes": "world.num_processes",
    "optimizer_steps_per_generation": "grpo.optimizer_steps_per_generation",
}


def pin(settings: Settings) -> Settings:
    """The settings with format values for experiment fields that no section has and nobody wrote."""
    fields = classified_fields()
    values = {name: field.value for name, field in fields.items() if field.has_value} | field_values(settings)
    pinned = [
        Setting(f"GRPOConfig.{name}", field.value, FORMAT_ORIGIN, path=("trl", name))
        for name, field in fields.items()
        if field.has_value and f"GRPOConfig.{name}" not in settings and matters(field, values)
    ]
    return settings.having(pinned)


def field_values(settings: Settings) -> dict[str, object]:
    """GRPOConfig values by name, as the table's conditions see them, with five that are no fields.

    rewards: their number. tools: the same, an environment counts as one, None without any. processes: of the run.
    optimizer_steps_per_generation: of the recipe. shims: the names of those that were decided.
    """
    values = settings.under("GRPOConfig")
    rewards = settings["rewards"].value if "rewards" in settings else []
    values["rewards"] = len(rewards) if isinstance(rewards, list) else 0
    tools = settings["tools"].value if "tools" in settings else []
    called = len(tools) if isinstance(tools, list) else 0
    values["tools"] = called + ("environment.python" in settings) or None
    for name, key in OTHER_VALUES.items():
        values[name] = settings[key].value if key in settings else None
    values["shims"] = tuple(settings.under("shims"))
    return values
