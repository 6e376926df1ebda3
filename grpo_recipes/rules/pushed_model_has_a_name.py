"""A model that is pushed to the hub has a name of its own there.

Without `hub_model_id` the trainer names the repository after the folder that it writes into, which is called
checkpoints in every run folder: each run pushes over the model of the last one. A note says where a named one goes:
a recipe that came from somebody else uploads what is trained here, with the login of this machine.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context

ID = "TRN006"
PUSH, NAME = "GRPOConfig.push_to_hub", "GRPOConfig.hub_model_id"


def check(context: Context) -> Iterator[Finding]:
    if context.value(PUSH) is not True:
        return
    if context.value(NAME):
        yield context.finding(
            ID,
            f"the run pushes its model to {context.text(NAME)} on the hub",
            PUSH,
            because=["the trainer uploads it when it saves, with the login of this machine"],
            fix="push_to_hub: false, if it is to stay here",
            severity="note",
        )
    else:
        name = context.text("name")
        yield context.finding(
            ID,
            "the pushed model would be called checkpoints",
            PUSH,
            because=["the trainer takes the name of its output folder, which is the same in every run"],
            fix=f"hub_model_id: {name}",
            severity="warning",
            patch=[Patch(("trl", "hub_model_id"), name)],
        )
