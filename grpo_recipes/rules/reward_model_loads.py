"""TRL can load the reward model.

TRL loads it after the policy, with the policy's own keywords. A missing folder raises only then. TRL also looks for
model.model_revision, a branch or commit of the policy, in the reward model's repository, which seldom has it. A reward
model in a local folder has no revision.
"""

import os
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.user_files.local_files import local_path

ID = "RWD006"
REVISION = "model_init_kwargs.revision"


def check(context: Context) -> Iterator[Finding]:
    for index, reward in enumerate(context.items("rewards")):
        model = reward.get("model")
        if not isinstance(model, str):
            continue
        place = ("rewards", index, "model")
        path = local_path(model, context.source.directory(place))
        if path is not None:
            if not os.path.isfile(os.path.join(path, "config.json")):
                said = f"{model} is not a model folder"
                because = f"looked for config.json in {path}"
                fix = "model: an existing folder, or owner/name on the hub"
                yield context.finding(said, "rewards", because, fix=fix, mark=context.source.mark(place))
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
