"""TRL can load the reward model.

TRL loads it after the policy, with the policy's own keywords. A missing folder raises only then. TRL also looks for
model.model_revision, a branch or commit of the policy, in the reward model's repository, which seldom has it. A reward
model in a local folder has no revision. TRL loads it as a sequence classification model with one label: transformers
gives any other class a new output layer with random weights, and only warns, so the rewards are random numbers; a
classifier with several labels raises RuntimeError, as its output layer has a different size. Options are for functions.
"""

import os
from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import has_own_code, task_of
from grpo_recipes.user_files.local_files import local_path
from grpo_recipes.user_files.model_config import read_model_config

ID = "RWD006"
REVISION = "model_init_kwargs.revision"


def check(context: Context) -> Iterator[Finding]:
    for index, reward in enumerate(context.items("rewards")):
        model = reward.get("model")
        if not isinstance(model, str):
            continue
        key_path = ("rewards", index, "model")
        path = local_path(model, context.source.directory(key_path))
        yield from _of_its_class(context, index, model, read_model_config(path or model))
        if reward.get("options"):
            at, why = ("rewards", index, "options"), "options are keywords of a function"
            yield context.wrong("a reward model has no options", "rewards", why, at=at, severity="warning")
        if path is not None:
            if not os.path.isfile(os.path.join(path, "config.json")):
                message = f"{model} is not a model folder"
                because = f"looked for config.json in {path}"
                fix = "model: an existing folder, or owner/name on the hub"
                yield context.finding(message, "rewards", because, fix=fix, mark=context.source.mark(key_path))
        elif context.value(REVISION) not in (None, "main") and model != context.value("model.model_name_or_path"):
            revision = context.value(REVISION)
            yield context.finding(
                f"TRL would load {model} at the policy's model_revision {revision}",
                "rewards",
                "TRL loads a reward model with all keywords of the policy",
                fix="model: a local folder with the reward model",
                severity="warning",
                mark=context.source.mark(("rewards", index, "model")),
            )


def _of_its_class(context: Context, index: int, model: str, config: Mapping[str, object] | None) -> Iterator[Finding]:
    """The finding for a model whose output is not one score."""
    if config is None or has_own_code(config) or (task := task_of(config)) is None:
        return
    labels = config.get("num_labels", config.get("id2label") or {"": 0, " ": 1})  # two labels are not written
    count = labels if isinstance(labels, int) else len(labels) if isinstance(labels, dict) else 1
    if task != "classifies":
        message = f"{model} {task}, and is not a reward model"
        because = "transformers adds an output layer with random weights, so the rewards would be random numbers"
    elif count != 1:
        message = f"{model} has {count} labels, but a reward model has one"
        because = (
            "TRL loads it with one label, and transformers raises RuntimeError for an output layer of another size"
        )
    else:
        return
    fix = "model: one of the class ...ForSequenceClassification with one label"
    yield context.finding(message, "rewards", because, fix=fix, mark=context.source.mark(("rewards", index, "model")))
