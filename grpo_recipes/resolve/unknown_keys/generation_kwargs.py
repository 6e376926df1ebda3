"""What a recipe writes instead of TRL's generation_kwargs, which mean one thing to vLLM and another to transformers."""

from grpo_recipes.contract.findings.finding import Finding, Patch, Path, dotted
from grpo_recipes.facts.facts import Facts
from grpo_recipes.facts.generation_keys import ALWAYS, HOMES, LISTS, REFUSED, TRANSFORMERS, VLLM, named_by
from grpo_recipes.nearest import nearest_words
from grpo_recipes.yaml.compose import Source

OWNED_KEY = "FCT003"
HOME: Path = ("generation", "generation_kwargs")


def generation_kwargs_finding(path: Path, value: object, facts: Facts, source: Source) -> Finding | None:
    """The finding for a map of generation_kwargs that stands elsewhere: for each key the place that it has.

    What has no key of the format goes to generation.generation_kwargs, where it is judged. None for another key.
    """
    if path[-1] != "generation_kwargs" or not isinstance(value, dict):
        return None
    because = ["vLLM and transformers call the same thing by other names, and ignore or refuse those they do not know"]
    patch = [Patch(path, remove=True)]
    fixes = []
    for name, one in value.items():
        said, place = _meant(str(name), facts)
        because.append(said)
        if place is None:
            continue
        home = dotted(place)
        fixes.append(home)
        if place not in source.marks:
            patch.append(Patch(place, [one] if home in LISTS and not isinstance(one, list) else one))
    return Finding(
        OWNED_KEY,
        "error",
        f"generation_kwargs is not written under `{dotted(path[:-1])}`",
        dotted(path),
        source.mark(path),
        because=tuple(because),
        fix=f"write {', '.join(dict.fromkeys(fixes))}" if fixes else "remove generation_kwargs",
        patch=tuple(patch),
    )


def _meant(name: str, facts: Facts) -> tuple[str, Path | None]:
    """What is to be said of a key, and its place in the format."""
    known = _known(name, facts)
    if known is not None:
        return f"{name} is {known[0]}", known[1]
    names = {*HOMES, *ALWAYS}.union(*(named_by(backend, facts) for backend in (VLLM, TRANSFORMERS)))
    close = nearest_words(name, sorted(names), cutoff=0.7)
    nearest = _known(close[0], facts) if close else None
    if nearest is None:
        return f"{name} is known to neither vLLM nor transformers", None
    return f"{name} is known to neither, the nearest is {close[0]}, which is {nearest[0]}", nearest[1]


def _known(name: str, facts: Facts) -> tuple[str, Path | None] | None:
    """What a key of vLLM or of transformers is in the format, and its place; None for a key of neither."""
    if name in ALWAYS:
        return f"always {ALWAYS[name]}", None
    if name in HOMES:
        return HOMES[name], tuple(HOMES[name].split("."))
    if name in REFUSED:
        return f"not for a recipe: {REFUSED[name]}", None
    having = [backend for backend in (VLLM, TRANSFORMERS) if name in (named_by(backend, facts))]
    return (f"of {' and '.join(having)}", (*HOME, name)) if having else None
