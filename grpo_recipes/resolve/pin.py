"""Phase 4, pin: what defines the experiment is passed in full, so that no release's own default decides."""

from grpo_recipes.facts.classified import classified_fields, matters
from grpo_recipes.settings import FORMAT_ORIGIN, Setting, Settings


def pin(settings: Settings) -> Settings:
    """The settings with format values for experiment fields that no section has and nobody wrote."""
    values = field_values(settings)
    pinned = [
        Setting(f"GRPOConfig.{name}", field.value, FORMAT_ORIGIN, path=("trl", name))
        for name, field in classified_fields().items()
        if field.has_value and f"GRPOConfig.{name}" not in settings and matters(field, values)
    ]
    return settings.having(pinned)


def field_values(settings: Settings) -> dict[str, object]:
    """GRPOConfig values by name, with the number of rewards, as the table's conditions see them."""
    values = settings.under("GRPOConfig")
    rewards = settings["rewards"].value if "rewards" in settings else []
    values["rewards"] = len(rewards) if isinstance(rewards, list) else 0
    return values
