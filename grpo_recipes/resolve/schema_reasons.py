"""Why a value of the wrong type or range is one, and what to write, where the mistake alone does not say it."""

import re
from collections.abc import Mapping

from grpo_recipes.contract.findings.finding import Finding, Path
from grpo_recipes.shown_values import entry, flow
from grpo_recipes.yaml.compose import Source

# Keys with a mistake that people bring along from other programs: why it is one, and the fix.
_KNOWN: Mapping[tuple[str, str], tuple[str, str]] = {
    ("generation.temperature", "0"): (
        "at temperature 0 all completions of a group are alike, so that there is nothing to learn from",
        "temperature: 1.0",
    ),
    ("logging.report_to", "wandb_offline"): (
        "a service is named here; whether wandb is offline says WANDB_MODE in the environment",
        "report_to: [wandb]",
    ),
    ("environment.python", "None"): (
        "an environment is a class of yours whose methods the model calls",
        "python: file.py:Class, or remove environment",
    ),
    ("rollout.python", "None"): (
        "a rollout is a function of yours that makes the completions instead of TRL",
        "python: file.py:function, or remove rollout",
    ),
}
_STEPS = ("save_steps", "logging_steps", "eval_steps")
_OF_A_CLASS = re.compile(r"([^:]+\.py):((?:\w+\.)+(\w+))")
_WITH_UNIT = re.compile(r"(\d+(?:\.\d+)?) ?[A-Za-z]+")


def with_reason(finding: Finding, path: Path, source: Source) -> Finding:
    """The finding with a reason and, where there is one, a fix."""
    key = ".".join(part for part in path if isinstance(part, str))
    value = _at(source.values, path)
    known = _KNOWN.get((key, str(value)))
    if known is not None:
        return finding._replace(because=(known[0],), fix=known[1], patch=())
    because, fix = finding.because, finding.fix
    if not because:
        because = (_reason(key, path, value, finding.message),)
    if fix is None and path:
        fix = _fix(key, path, value)
    return finding._replace(because=because, fix=fix)


def _reason(key: str, path: Path, value: object, message: str) -> str:
    if message.endswith(" a map"):
        if value is None:
            return f"a section without keys is null in YAML; without {path[-1]} its defaults hold"
        return "a section has lines of the form key: value" + (", without dashes" if isinstance(value, list) else "")
    if key == "generation.stop_token_ids":
        return "an id is the number of a token; its text belongs under generation.stop"
    if path[-1:] and path[-1] in _STEPS and isinstance(value, float):
        return "it counts steps; a share of the run, as transformers takes it, is not read"
    if message.endswith(" a list") and value is not None:
        return "it takes several values, so that also a single one is written as a list"
    text, _ = _meaning(key)
    return f"{key}: {text}" if text else "the format of recipes says so"


def _fix(key: str, path: Path, value: object) -> str | None:
    if value is None:
        return f"remove {path[-1]}, or write its keys below it, indented"
    if key == "generation.stop_token_ids":
        return f'stop: ["{value}"], and without it here' if isinstance(value, str) else None
    of_a_class = _OF_A_CLASS.fullmatch(value) if path[-1] == "python" and isinstance(value, str) else None
    if of_a_class is not None:
        file, inner, name = of_a_class.groups()
        return f"python: {file}:{name}, with a line {name} = {inner} at the end of the file"
    number = _WITH_UNIT.fullmatch(value) if isinstance(value, str) else None
    if number is not None:
        return f"the number alone, in the unit of the key: {entry(path, number[1])}"
    _, default = _meaning(key)
    if default is None or isinstance(path[-1], int) or isinstance(default, list | dict):
        return None
    return f"{entry(path, flow(default))}, the default"


def _meaning(key: str) -> tuple[str, object]:
    """What a key means, in a sentence, and its default; "" and None where the format does not say it."""
    from grpo_recipes.schemas.export import field_docs  # only a mistake asks
    from grpo_recipes.schemas.models import sections
    from grpo_recipes.schemas.section import must_be_said, written_fields

    section, _, name = key.rpartition(".")
    model = sections().get(section)
    field = written_fields(model).get(name) if model is not None else None
    if model is None or field is None:
        return "", None
    text = " ".join((field_docs(model).get(name) or "").split())
    default = None if must_be_said(field) or name in sections() else field.get_default(call_default_factory=True)
    return re.split(r"(?<=[^.]{3})[.;] |\.$", text)[0], default


def _at(values: object, path: Path) -> object:
    for part in path:
        try:
            values = values[part]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return None
    return values
