"""The rows' pass rates were measured with the recipe's own model and chat template.

What: compares the column `profile`, which `grpo-run profile` writes, with the model and chat template of the recipe, as
far as both are known before a launch, and with the other rows; a launch reads the whole model folder, and one row.
Why: a filter on pass_rate keeps rows that are neither too easy nor too hard for the profiled model. A different model
may find them too easy or too hard. Rows of several profiles, such as two joined files, were not measured alike.
Fix: run grpo-run profile with this recipe and the rows without the filter.
Example: the rows were profiled with a different model or chat template, so pass_rate is not this model's
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.contract.profile import ASKED, OTHER, PROFILE, other_profile, profile_in_row
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL040"
FIX = "grpo-run profile with this recipe, then train on its output"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.data is None or PROFILE not in inputs.data.rows.column_names:
        return
    profiles = (profile_in_row({PROFILE: value}) for value in inputs.data.rows[PROFILE])
    known = {str(profile[ASKED]): profile for profile in profiles if profile is not None}
    different = [line for profile in known.values() for line in other_profile(inputs.plan, {PROFILE: profile})]
    if different:
        yield warning(OTHER, ("dataset", "path"), because=tuple(dict.fromkeys(different)), fix=FIX)
    elif len(known) > 1:
        because = "their samples, sampling, rewards or data differ, and rates of different settings cannot be compared"
        yield warning(f"the rows are of {len(known)} different profiles", ("dataset", "path"), because=because, fix=FIX)
