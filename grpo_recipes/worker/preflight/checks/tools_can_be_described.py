"""Tools and environment can be loaded, and each tool can be described to the model.

What: preflight loads their files as a run does: tools in a process with their limits, the environment's object with the
recipe's config. Then it creates the JSON schema of each function or method, which is the model's only description of
it.
Why: a run fails with the same message after loading the model.
Fix: follow the exception; avoid slow or memory-hungry code at the top level of the file.
Example: tools cannot be loaded: tool search: tools.py cannot be loaded: KeyError: 'SEARCH_URL'
Sources: transformers' utils/chat_template_utils.py (get_json_schema), trl's grpo_trainer.py (__init__).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight._shared.tools_seen import place_in_recipe

ID = "PFL029"


def check(inputs: Seen) -> Iterator[Finding]:
    tools = inputs.tools
    if tools is None:
        return
    if tools.problem:
        what = "tools" if inputs.plan.tools else "environment"
        yield mistake(f"{what} cannot be loaded: {tools.problem}", (what,), because=tools.place)
    for described in tools.tools:
        if described.schema is None:
            yield mistake(
                f"tool {described.name} cannot be described to the model: {described.error}",
                place_in_recipe(inputs.plan, described.name),
                because="transformers makes its JSON schema from name, type hints and docstring",
            )
