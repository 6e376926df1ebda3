"""`generation_kwargs`: what it says about sampling has typed keys in a recipe."""

from collections.abc import Mapping

from grpo_recipes.takeover.basis.coercion import Unreadable, as_trl_reads
from grpo_recipes.takeover.basis.situation import Situation

NAME = "generation_kwargs"
HOMES = {name: f"generation.{name}" for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")}
HOMES |= {"stop": "generation.stop", "stop_strings": "generation.stop", "stop_token_ids": "generation.stop_token_ids"}
HOMES |= {"max_new_tokens": "generation.max_completion_length", "max_tokens": "generation.max_completion_length"}
HOMES |= {"min_new_tokens": "generation.min_tokens", "min_tokens": "generation.min_tokens"}


def take_generation(situation: Situation) -> None:
    """The keys inside generation_kwargs, one row for each."""
    given = situation.given
    if NAME not in given:
        return
    try:
        block = as_trl_reads(given.take(NAME), "dict | str | None")
    except Unreadable as problem:
        given.refused(NAME, f"TRL cannot take it: {problem}", "generation")
        return
    if not block:
        given.mapped(NAME, None)
        return
    if not isinstance(block, Mapping):
        given.refused(NAME, "it is a map", "generation")
        return
    for key, value in block.items():
        spelled = f"{NAME}.{key}"
        given.taken[spelled], given.names[spelled] = value, f"{given.name(NAME)}.{key}"
        where = HOMES.get(str(key))
        if where is None:
            given.refused(spelled, "no release-independent key of `generation` says it", "generation")
        elif where in ("generation.stop", "generation.stop_token_ids"):
            listed = value if isinstance(value, list) else [value]
            given.emulated(spelled, where, listed, "on every backend; the token that completes it stays")
        else:
            if str(key) in given:
                given.emulated(str(key), None, None, f"{spelled} wins")
            given.mapped(spelled, where, value)
