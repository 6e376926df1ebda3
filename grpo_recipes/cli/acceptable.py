"""Which rules `--accept` takes."""

from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.rules.catalog import rules

# Rules whose errors a patched library cannot fix, with the reason.
NEVER = {
    "DAT001": "a run needs its data",
    "MDL001": "a run needs its model",
    "RWD001": "a run needs its reward",
    "STK010": "a missing package cannot be patched",
    "TOK001": "a run needs its chat template",
}
SHIMS = {"SHM024": "shims.equal_rewards", "SHM025": "shims.less_padding"}
"""Rules whose shim a run may do without, and the shim."""
TRUST = "TRU"
"""Prefixes of the rules that judge what a recipe may do to a machine."""


def why_not_accepted(one: str) -> str | None:
    """Why a rule's errors cannot be accepted, None if they can."""
    if one.startswith(TRUST):
        return "it is about what a recipe may do to this machine, not about a library, so it stays an error"
    if one in NEVER:
        return f"{NEVER[one]}, so it stays an error"
    rule = next((rule for rule in rules() if rule.id == one), None)
    if rule is not None and (rule.check is not None or one in SHIMS):
        return None
    if rule is not None:
        return "this rule decides a value and reports no errors"
    from grpo_recipes.explain.pages import known_ids  # only for what is refused

    if one not in known_ids():
        near = nearest_words(one, known_ids(), cutoff=0.7)
        return f"there is no such rule{f'; the nearest is {near[0]}' if near else ''}"
    return f"only rules that judge the recipe can be accepted; see grpo-run explain {one}"
