"""The rows' pass rates were measured with the recipe's own model and chat template.

What: compares the column `profile`, which `grpo-run profile` writes, with the model and chat template of the recipe, as
far as both are known before a launch; a launch reads the whole model folder and prints the same.
Why: a filter on pass_rate keeps rows that are neither too easy nor too hard for the profiled model. A different model
may find them too easy or too hard.
Fix: run grpo-run profile with this recipe and the rows without the filter.
Example: the rows were profiled with a different model or chat template, so pass_rate is not this model's
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.contract.profile import OTHER, PROFILE, other_profile
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL040"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.data is None or PROFILE not in inputs.data.rows.column_names:
        return
    different = other_profile(inputs.plan, inputs.data.rows[0])
    if different:
        fix = "grpo-run profile with this recipe, then train on its output"
        yield warning(OTHER, ("dataset", "path"), because=tuple(different), fix=fix)
