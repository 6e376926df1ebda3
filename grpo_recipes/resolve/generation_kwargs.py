"""What a recipe writes instead of TRL's generation_kwargs, which mean one thing to vLLM and another to transformers."""

from collections.abc import Mapping

from grpo_recipes.facts.facts import Facts
from grpo_recipes.facts.shipped import table
from grpo_recipes.finding import Finding, Patch, Path, dotted
from grpo_recipes.nearest import nearest_words
from grpo_recipes.yaml.compose import Source

OWNED_KEY = "FCT003"

# The key of the format for a parameter of vLLM's SamplingParams or of transformers' GenerationConfig.
HOMES = {
    "cache_implementation": "trl.cache_implementation",
    "eos_token_id": "generation.stop_token_ids",
    "include_stop_str_in_output": "generation.include_stop_str_in_output",
    "max_completion_length": "generation.max_completion_length",
    "max_new_tokens": "generation.max_completion_length",
    "max_tokens": "generation.max_completion_length",
    "min_p": "generation.min_p",
    "n": "grpo.num_generations",
    "num_return_sequences": "grpo.num_generations",
    "repetition_penalty": "generation.repetition_penalty",
    "stop": "generation.stop",
    "stop_strings": "generation.stop",
    "stop_token_ids": "generation.stop_token_ids",
    "temperature": "generation.temperature",
    "top_k": "generation.top_k",
    "top_p": "generation.top_p",
}
# What every run has.
ALWAYS = {"do_sample": "true", "skip_special_tokens": "false where a stop needs it"}
LISTS = ("generation.stop", "generation.stop_token_ids")


def generation_kwargs_finding(path: Path, value: object, facts: Facts, source: Source) -> Finding | None:
    """The finding for a map of generation_kwargs: for each key the one of the format, or the nearest that there is.

    None for another key.
    """
    if path[-1] != "generation_kwargs" or not isinstance(value, dict):
        return None
    because = ["vLLM and transformers call the same thing by other names, and ignore or refuse those they do not know"]
    patch = [Patch(path, remove=True)]
    fixes = []
    for name, one in value.items():
        said, home = _meant(str(name), facts)
        because.append(said)
        if home is None:
            continue
        fixes.append(home)
        place: Path = tuple(home.split("."))
        if place not in source.marks:
            patch.append(Patch(place, [one] if home in LISTS and not isinstance(one, list) else one))
    return Finding(
        OWNED_KEY,
        "error",
        "generation_kwargs is not written by a recipe",
        dotted(path),
        source.mark(path),
        because=tuple(because),
        fix=f"write {', '.join(dict.fromkeys(fixes))}" if fixes else "remove generation_kwargs",
        patch=tuple(patch),
    )


def _meant(name: str, facts: Facts) -> tuple[str, str | None]:
    """What is to be said of a key, and its home in the format."""
    backends = {
        "vLLM": frozenset(facts.fields("SamplingParams") or ()),
        "transformers": frozenset(table("generation_keys")["keys"]),
    }
    known = _known(name, backends)
    if known is not None:
        return f"{name} is {known[0]}", known[1]
    close = nearest_words(name, sorted({*HOMES, *ALWAYS}.union(*backends.values())), cutoff=0.7)
    nearest = _known(close[0], backends) if close else None
    if nearest is None:
        return f"{name} is known to neither vLLM nor transformers", None
    return f"{name} is known to neither, the nearest is {close[0]}, which is {nearest[0]}", nearest[1]


def _known(name: str, backends: Mapping[str, frozenset[str]]) -> tuple[str, str | None] | None:
    """What a key of vLLM or of transformers is in the format, and its home; None for a key of neither."""
    if name in ALWAYS:
        return f"always {ALWAYS[name]}", None
    if name in HOMES:
        return HOMES[name], HOMES[name]
    having = [backend for backend, keys in backends.items() if name in keys]
    return (f"of {' and '.join(having)}, and no key of the format has it", None) if having else None
