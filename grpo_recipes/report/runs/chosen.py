"""Filters and sorts runs, and finds the values in which they differ."""

import fnmatch
import json
from collections.abc import Callable, Sequence

from grpo_recipes.contract.errors import Refusal
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.report.runs.one_run import ListedRun

_DIGESTS = (".sha256", ".commit")
# Sort keys, best or newest first; names and values of plans ascend.
FIGURES: dict[str, Callable[[ListedRun], object]] = {
    "started": lambda run: run.at,
    "step": lambda run: run.step,
    "reward": lambda run: run.reward,
    "held_out": lambda run: run.after if run.after is not None else run.before,
    "time": lambda run: run.seconds,
}
TEXTS: dict[str, Callable[[ListedRun], object]] = {"name": lambda run: run.name, "status": lambda run: run.status}


def differing(runs: Sequence[ListedRun]) -> list[str]:
    """The keys whose planned values differ between the runs that have a plan, those of the experiment first.

    A digest that one of them lacks is not compared.
    """
    planned = [run.values for run in runs if run.values]
    keys = list(dict.fromkeys(key for values in planned for key in values))
    return [key for key in keys if _differs([values.get(key) for values in planned], key.endswith(_DIGESTS))]


def _differs(values: Sequence[object], is_digest: bool) -> bool:
    first = next((value for value in values if value is not None), None)
    # Most values are the same in all runs; true is not 1.
    others = [value for value in values if value != first or type(value) is not type(first)]
    if is_digest:
        return any(value is not None for value in others)
    return len({json.dumps(value, sort_keys=True) for value in (first, *others)}) > 1


def sorted_runs(runs: Sequence[ListedRun], key: str) -> list[ListedRun]:
    """The runs sorted by a figure, a text or a planned value; those without one last. Raises Refusal."""
    if key in FIGURES:
        of, highest_first = FIGURES[key], True
    elif key in TEXTS:
        of, highest_first = TEXTS[key], False
    else:
        of, highest_first = _value_of(runs, key, "--sort", [*FIGURES, *TEXTS]), False
    having = sorted((run for run in runs if of(run) is not None), key=lambda run: _rank(of(run)), reverse=highest_first)
    return having + [run for run in runs if of(run) is None]


def _rank(value: object) -> tuple[bool, float, str]:
    """Sorts numbers before texts."""
    if isinstance(value, int | float):
        return (False, value, "")
    return (True, 0, value if isinstance(value, str) else json.dumps(value, sort_keys=True))


def filtered(runs: Sequence[ListedRun], filters: Sequence[str]) -> list[ListedRun]:
    """The runs that pass all filters. Raises Refusal for a filter that cannot be read."""
    kept = list(runs)
    for text in filters:
        passes = _filter(runs, text)
        kept = [run for run in kept if passes(run)]
    return kept


def _filter(runs: Sequence[ListedRun], text: str) -> Callable[[ListedRun], bool]:
    key, equals, asked = text.partition("=")
    if not equals:
        return lambda run: fnmatch.fnmatchcase(run.name, text)
    if key in TEXTS:
        return lambda run: fnmatch.fnmatchcase(str(TEXTS[key](run)), asked)
    of, wanted = _value_of(runs, key, "--filter", list(TEXTS)), _read(text, asked)
    return lambda run: bool(run.values) and _is(of(run), wanted, asked)


def _read(text: str, asked: str) -> object:
    """The value as `--set` reads it."""
    from grpo_recipes.yaml.merge import read_override

    override, findings = read_override(text)
    if override is None:
        because = findings[0].message if findings else "it is not KEY=VALUE"
        raise Refusal.of(f"--filter {text} cannot be read", because=because, fix="--filter grpo.beta=0.04")
    return override.value.value if asked else ""


def _is(value: object, wanted: object, asked: str) -> bool:
    if isinstance(value, str):
        return fnmatch.fnmatchcase(value, asked)
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    return value == wanted


def _value_of(runs: Sequence[ListedRun], key: str, option: str, others: Sequence[str]) -> Callable[[ListedRun], object]:
    """A function that gets a key's value from a run; the last part of a key suffices if it is unique."""
    known = list(dict.fromkeys(key for run in runs for key in run.values))
    if key not in known and runs:
        from grpo_recipes.schemas.accepted import recipe_keys

        ending = [one for one in known if one.rpartition(".")[2] == key]
        if len(ending) == 1:
            key = ending[0]
        elif ending:
            raise Refusal.of(f"{option}: several keys end in {key}", fix=f"{option} with one of {', '.join(ending)}")
        elif key not in recipe_keys():
            near = nearest_words(key, [*others, *known, *recipe_keys()], cutoff=0.6)
            fix = f"{option} with {near[0]}" if near else f"{', '.join(others)}, or a key of a recipe"
            raise Refusal.of(f"{option}: there is no {key!r} in these runs", fix=fix)
    name = key
    return lambda run: run.values.get(name)
