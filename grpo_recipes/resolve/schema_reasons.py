"""Adds reasons and fixes to findings about a wrong type or range, where the mistake alone is not clear."""

import math
import re
from collections.abc import Mapping, Sequence

from grpo_recipes.contract.findings.finding import Finding, Patch, Path, value_at
from grpo_recipes.contract.findings.wording import entry, flow
from grpo_recipes.yaml.compose import Source
from grpo_recipes.yaml.scalars import is_underflow

# Mistakes that come from other programs: the reason and the fix for each.
_KNOWN: Mapping[tuple[str, str], tuple[str, str]] = {
    ("generation.temperature", "0"): (
        "at temperature 0 all completions of a group are the same, so there is nothing to learn",
        "temperature: 1.0",
    ),
    ("logging.report_to", "wandb_offline"): (
        "this names a service; WANDB_MODE in the environment makes wandb offline",
        "report_to: [wandb]",
    ),
    ("environment.python", "None"): (
        "an environment is your own class, whose methods the model calls",
        "python: file.py:Class, or remove environment",
    ),
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
_WITH_UNIT = re.compile(r"(\d+(?:\.\d+)?) ?[A-Za-z]+")


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
    because, fix = finding.because, finding.fix
    several = next((advice for named, kind, advice in _SEVERAL if named == key and isinstance(value, kind)), None)
    if several is not None:
        return finding._replace(because=several[:1], fix=several[1])
    if not because:
        because = (_reason(key, path, value, finding.message),)
    if fix is None and path:
        fix = _fix(key, path, value)
    return finding._replace(because=because, fix=fix)


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
    number = _WITH_UNIT.fullmatch(value) if isinstance(value, str) else None
    if number is not None:
        return f"the number alone, in the unit of the key: {entry(path, number[1])}"
    _, default = _meaning(key)
    if default is None or isinstance(path[-1], int) or isinstance(default, list | dict):
        return None
    return f"{entry(path, flow(default))}, the default"


def _meaning(key: str) -> tuple[str, object]:
    """A key's meaning in one sentence, and its default; "" and None if the format has no text."""
    from grpo_recipes.schemas.export import field_docs  # only needed for a mistake
    from grpo_recipes.schemas.models import sections
    from grpo_recipes.schemas.section import is_required_key, written_fields

    section, _, name = key.rpartition(".")
    model = sections().get(section)
    field = written_fields(model).get(name) if model is not None else None
    if model is None or field is None:
        return "", None
    text = " ".join((field_docs(model).get(name) or "").split())
    default = None if is_required_key(field) or name in sections() else field.get_default(call_default_factory=True)
    return re.split(r"(?<=[^.]{3})[.;] |\.$", text)[0], default


# Numbers as people write them, which YAML reads as text.


_NUMBER = r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?"
_THOUSANDS = r"[-+]?[1-9][0-9]{0,2}(,[0-9]{3})+"
_GROUPS = r"[1-9][0-9]{0,2}(?:([ '\u00a0\u202f])[0-9]{3}(?:\1[0-9]{3})*|(\.[0-9]{3}){2,})"


def as_expected(number: float | None, expected: Sequence[str]) -> int | float | None:
    """The number in the key's type, None if that would lose precision."""
    if number is None or isinstance(number, int) or "a number" in expected:
        return number
    return int(number) if number.is_integer() else None


def written_number(text: str) -> float | None:
    """The number in a text such as 0,7 or 5% or 10k; None if it is ambiguous."""
    match = re.fullmatch(r"(\d+)(?:[.](\d+)|,(\d{1,2}|\d{4,}|(?<=\b0,)\d+))? ?([%kK]?)", text.strip())
    if match is None or not (match[3] or match[4]):
        return None
    number = float(f"{match[1]}.{match[2] or match[3] or 0}")
    return round(number / 100, 12) if match[4] == "%" else number * 1000 if match[4] else number


def share_of(value: object) -> float | None:
    """The share that a percentage means, None for a number near 1, which is more likely a typo."""
    return round(value / 100, 12) if isinstance(value, int | float) and 2 <= value <= 100 else None


def meant_number(text: str, expected: Sequence[str]) -> int | float | None:
    """The number of an unambiguous text, in the key's type."""
    number = plain_number(text, whole="a number" not in expected)
    words = grouped_number(text) or written_number(text)
    return number if number is not None else as_expected(words, expected)


def plain_number(text: str, *, whole: bool) -> int | float | None:
    """The number of an unambiguous text; None for any other.

    Commas as thousands separators are only accepted in whole numbers: 1,000 is 1 with a decimal comma.
    """
    text = text.strip()
    if whole and re.fullmatch(_THOUSANDS, text):
        return int(text.replace(",", ""))
    if not re.fullmatch(_NUMBER, text) or (whole and may_be_thousands(text)):
        return None
    number = float(text)
    if math.isinf(number) or (number == 0 and is_underflow(text)):
        return None
    return int(text) if whole and text.lstrip("+-").isdigit() else as_expected(number, () if whole else ("a number",))


def may_be_thousands(text: str) -> bool:
    """Whether a decimal number may have a thousands separator: 1.000, which much of Europe writes for 1000."""
    return re.fullmatch(r"[-+]?[1-9][0-9]{0,2}(\.[0-9]{3})+", text) is not None


def grouped_number(text: str) -> int | None:
    """The whole number in a text grouped by threes without ambiguity: 10 000, 10'000, 1.000.000."""
    match = re.fullmatch(_GROUPS, text.strip())
    return int(re.sub(r"[^0-9]", "", text)) if match else None


def meanings(text: str, expected: Sequence[str]) -> str:
    """Why 8,0 or 1.000 is ambiguous: a decimal separator, a typo or thousands; "" for any other text.

    1,5 is not a whole number either way.
    """
    match = re.fullmatch(r"([0-9]+)([.,])([0-9]+)", text.strip())
    if match is None or "a whole number" not in expected or "a number" in expected or re.fullmatch(_THOUSANDS, text):
        return ""
    if match[3].strip("0") if match[2] == "," else not may_be_thousands(text):
        return ""
    return (f"{int(match[1])} or " if not match[3].strip("0") else "") + str(int(match[1] + match[3]))
