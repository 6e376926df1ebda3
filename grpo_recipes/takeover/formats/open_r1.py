"""Takes over the keys that open-r1's script and TRL's parser add: templates, Weights & Biases, `env`."""

from collections.abc import Iterable, Mapping

from grpo_recipes.schemas.other_names import other_names
from grpo_recipes.takeover.basis.context import Situation
from grpo_recipes.takeover.basis.read import table_of
from grpo_recipes.trust.environment import refused

WANDB = ("wandb_entity", "wandb_project", "wandb_run_group")


def is_open_r1(names: Iterable[str], rewards: object) -> bool:
    """Whether a flat configuration is open-r1's, by its own keys or its rewards' names."""
    tables = table_of("answers")
    own = {*tables["open_r1_keys"], *tables["options_of_rewards"]}
    listed = rewards if isinstance(rewards, list) else []
    return bool(own & set(names)) or any(
        one in other_names()["rewards"]["open_r1"] for one in listed if isinstance(one, str)
    )


def take_own_keys(situation: Situation) -> None:
    """Takes over keys that neither a trainer nor a model takes."""
    if "env" in situation.given:
        _environment(situation)
    if situation.dialect == "trl":
        return
    for name in WANDB:
        if name in situation.given:
            value = situation.given.values[name]
            if value is None:
                situation.given.mapped(name, None)
            else:
                because = f"{situation.dialect.replace('_', '-')} sets the variable"
                situation.given.emulated(name, f"launch.environment.{name.upper()}", str(value), because)
    if "chat_template" in situation.given:
        take_chat_template(situation)


def take_chat_template(situation: Situation) -> None:
    """Writes a template in the file to a file next to the recipe."""
    given, draft = situation.given, situation.draft
    text = given.values["chat_template"]
    if text is None:
        given.mapped("chat_template", None)
    elif not situation.writes_files:
        reason = "a recipe names a template's file; with -o it is written next to the recipe"
        given.refused("chat_template", reason, "tokenizer.chat_template_path")
    else:
        file = f"{situation.stem}.chat_template.jinja"
        draft.files[file] = str(text)
        given.emulated("chat_template", "tokenizer.chat_template_path", f"./{file}", "a file next to the recipe")


def _environment(situation: Situation) -> None:
    """Takes over `env`, which TrlParser puts into the environment."""
    given = situation.given
    block = given.take("env")
    for name, value in (block if isinstance(block, Mapping) else {}).items():
        spelled = f"env.{name}"
        reason = refused(str(name), str(value))
        given.taken[spelled] = value if reason is None else "..."
        if reason is None:
            given.mapped(spelled, f"launch.environment.{name}", str(value))
        else:
            given.refused(spelled, reason, "launch.environment")
