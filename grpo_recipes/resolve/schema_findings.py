"""Turns Pydantic's errors into findings: one per place, in the recipe's terms."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_recipes import __version__
from grpo_recipes.contract.findings.finding import Finding, Patch, Path, path_text
from grpo_recipes.contract.findings.wording import entry, flow, nearest_words, value_text
from grpo_recipes.facts.facts import Facts
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.resolve.unknown_keys.suggestions import finding_of_unknown_key
from grpo_recipes.resolve.written_numbers import meanings, number_of_text, share_of
from grpo_recipes.rules._shared.context import finding_at
from grpo_recipes.yaml.compose import Source
from grpo_recipes.yaml.merge import EXTEND

FORMAT = 1
MISSING_KEY = "SCH001"
WRONG_TYPE = "SCH002"
OUT_OF_RANGE = "SCH003"
NOT_ONE_OF = "SCH004"

EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
    "model_attributes_type": "a map",
}
RANGES = {
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
}
# The meaning of the format's patterns, by the last part of the key.
FORMS = {
    "name": "1 to 64 lower-case letters, digits, dots, dashes or underscores, starting with a letter or digit",
    "python": "of the form file.py:function",
    "base_url": "the address of an endpoint without a key in it, such as http://127.0.0.1:8000/v1",
    "key_variable": "the name of an environment variable, such as JUDGE_API_KEY; a key is never in a recipe",
    "time": 'minutes, or in quotes "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM" or "D-HH:MM:SS"',
    "main_process_ip": "a name or an address of a machine",
    **dict.fromkeys(("partition", "account", "qos"), "a name that the cluster uses, without spaces"),
    "gpu_type": "the cluster's name for a type of GPU, without spaces",
}
TRUE_WORDS, FALSE_WORDS = {"yes", "on", "y", "true"}, {"no", "off", "n", "false"}


def schema_findings(errors: Sequence[Mapping[str, Any]], facts: Facts, source: Source) -> dict[Path, Finding]:
    """One finding for each path in the errors of one validation."""
    from grpo_recipes.resolve.schema_reasons import with_reason  # only needed for a mistake

    grouped: dict[Path, list[Mapping[str, Any]]] = {}
    for error in errors:
        grouped.setdefault(_path(error, source), []).append(error)
    above = {path[:length] for path in grouped for length in range(len(path))}
    for path in above & grouped.keys():
        del grouped[path]  # another branch of the union went deeper, and says more
    by_path = {path: with_reason(_finding(path, group, facts, source), path, source) for path, group in grouped.items()}
    moved = {patch.path for finding in by_path.values() for patch in finding.patch if not patch.remove}
    # The section is verl's if a key of it is written elsewhere.
    moved |= {("rollout", "python") for path in by_path if path[:1] == ("rollout",) and len(by_path[path].patch) > 1}
    return {path: finding for path, finding in by_path.items() if finding.rule != MISSING_KEY or path not in moved}


def newer_format(source: Source) -> Finding | None:
    """The finding for a recipe, or a parent, of a later format; nothing else of it can be judged."""
    for value, mark in source.formats:
        if isinstance(value, int) and not isinstance(value, bool) and value > FORMAT:
            return Finding(
                NOT_ONE_OF,
                "error",
                f"recipe format {value_text(value)} is newer than this grpo-run",
                "recipe",
                mark,
                because=(
                    f"grpo-run {__version__} reads format {FORMAT}",
                    "the same keys may mean something else in a later format",
                ),
                fix="upgrade grpo-recipes",
            )
    return None


def _path(error: Mapping[str, Any], source: Source) -> Path:
    """The recipe's path of an error; pydantic's loc also has the branches of a union."""
    path: list[str | int] = []
    node: object = source.values
    for part in error["loc"]:
        inside = (isinstance(node, dict) and part in node) or (
            isinstance(node, list) and isinstance(part, int) and part < len(node)
        )
        if not inside:
            if error["type"] == "missing":
                path.append(part)
                break
            continue  # a branch of a union, which the recipe does not have
        node = node[part]  # type: ignore[index]
        path.append(part)
    return tuple(path)


def _finding(path: Path, group: Sequence[Mapping[str, Any]], facts: Facts, source: Source) -> Finding:
    error, kind = group[0], group[0]["type"]
    if kind == "extra_forbidden":
        return finding_of_unknown_key(path, error["input"], facts, source)
    if kind == "missing":
        return _missing(path, source)
    if kind in RANGES or kind in ("too_short", "too_long", "string_too_short", "string_pattern_mismatch"):
        return _out_of_range(path, error, source)
    literals = [e for e in group if e["type"] == "literal_error"]
    if literals and isinstance(error["input"], str | int | float) and not isinstance(error["input"], bool):
        return _not_one_of(path, group, literals[0], source)
    return _wrong_type(path, group, source)


def _missing(path: Path, source: Source) -> Finding:
    section, key = path_text(path[:-1]), str(path[-1])
    examples = {
        "recipe": "recipe: 1",
        "name": "name: my-run",
        "model": "model: {model_name_or_path: Qwen/Qwen2-0.5B-Instruct}",
        "training": "training: {prompts_per_step: 16}",
    }
    return finding_at(
        source,
        MISSING_KEY,
        path,
        f"{f'`{section}`' if section else 'the recipe'} lacks {key}",
        because=("it has no default",),
        fix=examples.get(key, f"{key}: ...") if not section else f"{key}: ...",
    )


def _out_of_range(path: Path, error: Mapping[str, Any], source: Source) -> Finding:
    kind, context = error["type"], error.get("ctx", {})
    if kind in RANGES:
        needed = RANGES[kind].format(**{k: f"{v:g}" if isinstance(v, float) else v for k, v in context.items()})
        bound = next(iter(context.values()))
        fix = entry(path, str(bound)) if kind.endswith("equal") else None
        patch = (Patch(path, bound),) if kind.endswith("equal") else ()
        share = share_of(error["input"]) if bound == 1 and kind.startswith("less") else None
        if share is not None:
            fix, patch = entry(path, str(share)), (Patch(path, share),)
        if path == ("training", "max_steps") and error["input"] in (0, -1):
            # TRL's values for no limit; then the epochs decide.
            fix, patch = "remove max_steps, and write num_train_epochs, the passes over the data", ()
    elif kind == "string_pattern_mismatch":
        needed, fix, patch = FORMS.get(str(path[-1]), f"of the form {context['pattern']}"), None, ()
    elif kind == "too_long":
        needed, fix, patch = f"of at most {context['max_length']} items", None, ()
    else:
        needed, patch = "not empty", ()
        fix = "remove it from the list" if isinstance(path[-1], int) else None
    return finding_at(
        source,
        OUT_OF_RANGE,
        path,
        f"{path_text(path)} is {value_text(error['input'])}, but must be {needed}",
        fix=fix,
        patch=patch,
    )


def _not_one_of(path: Path, group: Sequence[Mapping[str, Any]], literal: Mapping[str, Any], source: Source) -> Finding:
    expected = literal["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
    others = [EXPECTED[e["type"]] for e in group if e["type"] in EXPECTED]
    choices = expected.split(", ")
    value = literal["input"]
    if path[-1:] == ("recipe",):
        return finding_at(
            source,
            NOT_ONE_OF,
            path,
            f"recipe format {value_text(value)} is not known",
            because=(f"grpo-run {__version__} reads format {FORMAT}",),
            fix=f"recipe: {FORMAT}",
        )
    if "true or false" in others and str(value).lower() in TRUE_WORDS | FALSE_WORDS:
        return _wrong_type(path, group, source)
    letters = str(value).lower().replace("-", "_").replace(" ", "_")
    close = [choice for choice in choices if choice == letters] or nearest_words(letters, choices, cutoff=0.5)
    return finding_at(
        source,
        NOT_ONE_OF,
        path,
        f"{path_text(path)} is {value_text(value)}, but must be one of {', '.join([*choices, *dict.fromkeys(others)])}",
        fix=entry(path, close[0]) if close else None,
        patch=(Patch(path, close[0]),) if close and not close[0].isdigit() else (),
    )


def _wrong_type(path: Path, group: Sequence[Mapping[str, Any]], source: Source) -> Finding:
    value = group[0]["input"]
    expected = [EXPECTED[e["type"]] for e in group if e["type"] in EXPECTED]
    words = [_words(e["ctx"]["expected"]) for e in group if e["type"] == "literal_error"]
    expected, right = list(dict.fromkeys([*expected, *words])), _longhand(path, value)
    is_extension = expected == ["a list"] and isinstance(value, dict) and value.keys() == {EXTEND}
    if is_extension and (item := value[EXTEND]) is not None:
        right = [_longhand((*path, 0), item) or item]
    mark = source.mark(path)
    written = mark.line_text[: mark.end_column - 1].rpartition(" ")[2] if mark else ""
    unclear = meanings(value if isinstance(value, str) else written, expected)
    if right is None and not unclear:
        right = _convert(value, expected)
    because: tuple[str, ...] = ()
    if is_extension:
        because = ("extend adds to a list of a parent recipe, and no parent has this list",)
    elif path in source.words:
        because = (f"{value} is a word in YAML 1.2, not true or false",)
    elif unclear:
        because = (f"{written} may mean {unclear}",)
    elif isinstance(value, str) and right is not None and not isinstance(right, list | dict):
        plain = "a number has only digits, a decimal point and an exponent"
        because = ("in quotes it is text" if written[-1:] in ("'", '"') else plain,)
    elif isinstance(value, float) and right is not None:
        because = ("a number with a decimal point is never a whole number",)
    text = f'"{right}"' if isinstance(right, str) else unclear if right is None else flow(right)
    allowed = " or ".join(expected) or group[0]["msg"]
    return finding_at(
        source,
        WRONG_TYPE,
        path,
        f"{path_text(path) or 'the recipe'} is {value_text(value)}, but must be {allowed}",
        because=because,
        fix=entry(path, text) if text and path else None,
        patch=(Patch(path, right),) if right is not None else (),
    )


def _longhand(path: Path, value: object) -> object:
    """The long form of a name, or of true, instead of a section or a list of rewards or tools."""
    if path == ("lora",) and value is True:
        return {"r": 16, "lora_alpha": 32}
    bits = (
        re.fullmatch(r"(?:int|nf|fp)?([48])[- ]?(?:bits?)?", str(value).lower()) if path == ("quantization",) else None
    )
    if bits is not None:
        named = {"bnb_4bit_quant_type": bits[0]} if bits[0] in ("nf4", "fp4") else {}
        return {f"load_in_{bits[1]}bit": True, **named}
    if path == ("rewards",) and isinstance(value, dict) and {"name", "python", "model", "judge"} & value.keys():
        return [value]
    if path == ("tools",) and isinstance(value, dict) and "python" in value:
        return [value]
    if not isinstance(value, str):
        return None
    if path[:1] == ("tools",) and len(path) <= 2:
        return None if ".py:" not in value else {"python": value} if len(path) == 2 else [{"python": value}]
    if path == ("logging", "report_to"):
        known = table("trainer_words")["services"]
        names = [name for name in re.split(r"[,;\s]+", value) if name]
        return [name if name in known else (*nearest_words(name, sorted(known), cutoff=0.5), name)[0] for name in names]
    if path in (("model",), ("dataset",)):
        return {"model_name_or_path" if path == ("model",) else "path": value}
    if path in (("environment",), ("rollout",)):
        return {"python": value} if ".py:" in value else None
    reward = {"python" if ":" in value else "name": value}
    if path == ("rewards",):
        return [reward]
    return reward if path[:1] == ("rewards",) and len(path) == 2 else None


def _words(expected: str) -> str:
    """Pydantic's list of literals as YAML: "'auto' or True" -> "auto or true"."""
    return expected.replace("'", "").replace("True", "true").replace("False", "false")


def _convert(value: object, expected: Sequence[str]) -> object:
    """The intended value, if only one is possible."""
    if expected == ["true"]:
        return True
    if isinstance(value, str) and "true or false" in expected:
        word = value.lower()
        return True if word in TRUE_WORDS else False if word in FALSE_WORDS else None
    if isinstance(value, float) and "a whole number" in expected and value.is_integer():
        return int(value)
    if isinstance(value, str) and ("a whole number" in expected or "a number" in expected):
        return number_of_text(value, expected)
    if isinstance(value, int) and not isinstance(value, bool) and expected == ["true or false"] and value in (0, 1):
        return value == 1
    if isinstance(value, str) and expected == ["a list"]:
        return [value]
    if isinstance(value, int | float) and not isinstance(value, bool) and expected == ["text"]:
        return str(value)
    return None
