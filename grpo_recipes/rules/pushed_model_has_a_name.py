"""A model that is pushed to the hub has its own name there.

Without `hub_model_id` the trainer names the repository after its output folder, which is called checkpoints in every
run folder: each run overwrites the model of the previous run. For a named model the rule prints a note with its
destination, because a recipe from someone else uploads your model with this machine's login.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "TRN006"
PUSH, NAME = "GRPOConfig.push_to_hub", "GRPOConfig.hub_model_id"


def check(context: Context) -> Iterator[Finding]:
    if context.value(PUSH) is not True:
        return
    if context.value(NAME):
        message = f"the run pushes its model to {context.text(NAME)} on the hub"
        because = "the trainer uploads it when it saves, with this machine's login"
        yield context.finding(message, PUSH, because, fix="push_to_hub: false to keep it here", severity="note")
    else:
        name = context.text("name")
        message = "the pushed model would be called checkpoints"
        because = "the trainer uses the name of its output folder, which is the same in every run"
        yield context.wrong(message, PUSH, because, name, at=("trl", "hub_model_id"), severity="warning")
