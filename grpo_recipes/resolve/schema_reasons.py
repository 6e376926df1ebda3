"""Adds reasons and fixes to findings about a wrong type or range, where the mistake alone is not clear."""

import re
from collections.abc import Mapping, Sequence

from grpo_recipes.contract.findings.finding import Finding, Patch, Path, value_at
from grpo_recipes.contract.findings.wording import entry, flow
from grpo_recipes.yaml.compose import Source

# Mistakes that come from other programs: the reason and the fix for each.
_KNOWN: Mapping[tuple[str, str], tuple[str, str]] = {
    ("generation.temperature", "0"): (
        "at temperature 0 all completions of a group are the same, so there is nothing to learn",
        "temperature: 1.0",
    ),
    ("launch.engine", "kubernetes"): (
        "grpo-run writes no file for Kubernetes, where a Job starts the launch.sh of a run folder",
        "remove engine, and copy the Job in docs/machines.md",
    ),
    ("launch.engine", "skypilot"): (
        "grpo-run writes no file for SkyPilot, where a task starts the launch.sh of a run folder",
        "remove engine, and copy the task in docs/machines.md",
    ),
    ("logging.report_to", "wandb_offline"): (
        "this names a service; WANDB_MODE in the environment makes wandb offline",
        "report_to: [wandb]",
    ),
    ("environment.python", "None"): (
        "an environment is your own class, whose methods the model calls",
        "python: file.py:Class, or remove environment",
    ),
    **{
        ("environment.python", f"trl.experimental.{name}Spec"): (
            "an environment is a class in a file of yours",
            "python: file.py:Class, with a class of yours that calls the service, as in docs/environments.md",
        )
        for name in ("openreward:OpenReward", "harbor:Harbor")
    },
    ("rollout.python", "None"): (
        "a rollout is your own function, which generates the completions instead of TRL",
        "python: file.py:function, or remove rollout",
    ),
}
# Single values written as lists, or the reverse: the reason and the fix for each.
_SEVERAL: Sequence[tuple[str, type, tuple[str, str]]] = (
    (
        "dataset",
        list,
        ("it takes one data set; several belong in the list datasets", "datasets: [{source: a, path: a.jsonl}, ...]"),
    ),
    (
        "datasets",
        dict,
        ("it is a list, in which each source has a name", "datasets: [{source: a, path: a.jsonl}, ...]"),
    ),
    (
        "environments",
        dict,
        ("it is a list, in which each environment has a name", "environments: [{name: a, python: a.py:A}, ...]"),
    ),
    (
        "evaluation.sets",
        list,
        ("each set needs a name as its key", "sets: {easy: {path: easy.jsonl}, hard: {path: hard.jsonl}}"),
    ),
)
_STEPS = ("save_steps", "logging_steps", "eval_steps")
_OF_A_CLASS = re.compile(r"([^:]+\.py):((?:\w+\.)+(\w+))")
_WITH_UNIT = r"(\d+(?:\.\d+)?) ?([A-Za-z]+)"
_SECONDS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hr": 3600, "hour": 3600}
_SECONDS |= {"d": 86400, "day": 86400, "w": 604800, "week": 604800}


def with_reason(finding: Finding, path: Path, source: Source) -> Finding:
    """The finding with a reason and, if there is one, a fix."""
    key = ".".join(part for part in path if isinstance(part, str))
    value = value_at(source.values, path)
    known = _KNOWN.get((key, str(value)))
    if known is not None:
        return finding._replace(because=(known[0],), fix=known[1], patch=())
    if key == "evaluation.keep_best" and value in (value_at(source.values, ("evaluation", "sets")) or ()):
        by = (Patch(path, True), Patch(("evaluation", "decided_by"), value))
        why = "decided_by names the set, for stop_after and the lists of runs too"
        return finding._replace(because=(why,), fix=f"keep_best: true, and decided_by: {value}", patch=by)
    from grpo_recipes.schemas.models import is_switched_by_being_written  # only needed for a mistake

    because, fix, patch = finding.because, finding.fix, finding.patch
    is_below = finding.rule == "SCH003" and patch and value in (0, -1)
    no_limit = re.search(r"\bnull: ([^.;]+)", _text(key)) if is_below else None
    if no_limit is not None:
        why = f"null means: {no_limit[1]}"
        return finding._replace(because=(why,), fix=entry(path, "null"), patch=(Patch(path, None),))
    several = next((advice for named, kind, advice in _SEVERAL if named == key and isinstance(value, kind)), None)
    if several is not None:
        return finding._replace(because=several[:1], fix=several[1])
    if not because:
        because = (_reason(key, path, value, finding.message),)
    if value is False and is_switched_by_being_written(key):
        fix, patch = f"remove {key}, to do without it", (Patch(path, remove=True),)
    if fix is None and path and " one of " not in finding.message:
        fix = _fix(key, path, value)
    return finding._replace(because=because, fix=fix, patch=patch)


def _reason(key: str, path: Path, value: object, message: str) -> str:
    if message.endswith(" a map"):
        if value is None:
            return f"a section without keys is null in YAML; without {path[-1]} its defaults apply"
        return "a section has lines of the form key: value" + (", without dashes" if isinstance(value, list) else "")
    if key == "generation.stop_token_ids":
        return "an id is the number of a token; its text belongs under generation.stop"
    if path[-1:] and path[-1] in _STEPS and isinstance(value, float):
        return "it counts steps; a share of the run, as in transformers, is not supported"
    if message.endswith(" a list") and value is not None:
        return "it takes several values, so write a single value as a list too"
    text, _ = _meaning(key)
    return f"{key}: {text}" if text else "the recipe format requires it"


_LONGEST_NUMBER = 100
"""Characters of a number with its unit; splitting a text takes its length squared."""


def _fix(key: str, path: Path, value: object) -> str | None:
    if value is None:
        return f"remove {path[-1]}, or write its keys below it, indented"
    if key == "generation.stop_token_ids":
        return f'stop: ["{value}"], and without it here' if isinstance(value, str) else None
    if path[-1] == "base_url" and isinstance(value, str) and "//" not in value:
        return f"base_url: http://{value}"
    of_a_class = _OF_A_CLASS.fullmatch(value) if path[-1] == "python" and isinstance(value, str) else None
    if of_a_class is not None:
        file, inner, name = of_a_class.groups()
        return f"python: {file}:{name}, with a line {name} = {inner} at the end of the file"
    if isinstance(value, str) and len(value) <= _LONGEST_NUMBER and re.search(r"\d", value):
        return _with_unit(key, path, value)
    _, default = _meaning(key)
    if default is None or isinstance(path[-1], int) or isinstance(default, list | dict):
        return None
    return f"{entry(path, flow(default))}, the default"


def _with_unit(key: str, path: Path, value: str) -> str | None:
    """The entry for a number with a unit, such as "1 day", in the unit of the key; None if they do not match."""
    seconds, number = _seconds(value), re.fullmatch(_WITH_UNIT, value)
    unit = next((name for name in ("second", "minute") if name in f"{key} {_text(key)}".lower()), None)
    if seconds is not None and unit is not None:
        return f"{entry(path, f'{seconds / _SECONDS[unit]:.15g}')}, in {unit}s"
    named = f"{key} {_meaning(key)[0].lower()}"
    if seconds is not None or number is None or number[2].lower().rstrip("s") not in named:
        return None
    return f"the number alone, in the unit of the key: {entry(path, number[1])}"


def _seconds(text: str) -> float | None:
    """The seconds of a duration such as 90 min or 1d12h, None for any other text."""
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)[\s,]*", text)
    if "".join(re.split(r"[\s,]+", text)) != "".join(map("".join, parts)):
        return None
    known = [(float(number), _SECONDS.get(unit.lower().removesuffix("s") or "s")) for number, unit in parts]
    units = [number * unit for number, unit in known if unit is not None]
    return sum(units) if known and len(units) == len(known) else None


def _text(key: str) -> str:
    """A key's whole description, "" without one."""
    from grpo_recipes.schemas.export import field_docs  # only needed for a mistake
    from grpo_recipes.schemas.models import sections

    section, _, name = key.rpartition(".")
    model = sections().get(section)
    return "" if model is None else " ".join((field_docs(model).get(name) or "").split())


def _meaning(key: str) -> tuple[str, object]:
    """A key's meaning in one sentence, and its default; "" and None if the format has no text."""
    from grpo_recipes.schemas.models import sections  # only needed for a mistake
    from grpo_recipes.schemas.section import fields_by_key, is_required_key

    section, _, name = key.rpartition(".")
    model = sections().get(section)
    field = fields_by_key(model).get(name) if model is not None else None
    if model is None or field is None:
        return "", None
    default = None if is_required_key(field) or name in sections() else field.get_default(call_default_factory=True)
    return re.split(r"(?<=[^.]{3})[.;] |\.$", _text(key))[0], default
