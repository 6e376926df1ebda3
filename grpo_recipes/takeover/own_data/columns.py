"""Chooses the fields of prompt and right answer: by value, and by name only among those whose values fit."""

import re
import warnings
from ast import literal_eval
from collections.abc import Iterable, Sequence
from typing import Any

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.findings.wording import join_items, nearest_words, shorten
from grpo_recipes.takeover.own_data.answers import RightAnswer
from grpo_recipes.takeover.own_data.fields import MOST, DataField, plain
from grpo_recipes.takeover.own_data.rows import words

_IDS = re.compile(r"(.*[_ ])?(id|ids|idx|index|uuid|hash|url|split|source|date)|.*(Id|ID)")
_NO_QUESTION = re.compile(r"[\d.,%$+-]+|\S*://\S+|[0-9a-f-]{16,}|[\[{]\s*[\[{'\"].*[\]}]", re.S)
_OPTION = re.compile(r"(.*?)_?([a-jA-J]|[1-9])")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
CODE = "Answer with one Python code block."
LETTER = "Answer with the letter of the right option and nothing else."
_INPUTS = re.compile(r'\s*\{\s*"inputs":')
_STATEMENT = re.compile(r"^\s*(assert\b|def check\()", re.M)


def is_question(field: DataField) -> bool:
    """Whether the values can be prompts: texts, not only numbers, ids or words for a file."""
    if field.role not in ("", "user") or field.share(lambda value: isinstance(value, str)) < 1 or not field.present:
        return False
    is_plain = field.share(lambda value: _NO_QUESTION.fullmatch(value.strip()))
    return is_plain < MOST and not _IDS.fullmatch(field.name) and not is_system(field)


def is_system(field: DataField) -> bool:
    """Whether the values are system messages."""
    is_named = field.role == "system" or field.plain_name in ("system", "systemprompt")
    return is_named and field.share(lambda value: isinstance(value, str)) == 1


def is_asked(field: DataField) -> bool:
    """Whether nearly all values end with a question mark."""
    return field.share(lambda value: isinstance(value, str) and value.strip()[-1] in "?？؟") >= MOST


def why_no_answer(field: DataField, question: DataField) -> str | None:
    """Why the values cannot be right answers, None if they can."""
    if field.role not in ("", "assistant") or not field.present or _IDS.fullmatch(field.name) or is_system(field):
        return "it has no answers"
    if question.expression.startswith((f"{field.expression}.", f"{field.expression}[")):
        return "it contains the prompt"
    if not all(isinstance(value, str | int | float) or _is_flat(value) for value in field.present):
        return "its values are neither texts nor numbers"
    pairs = [(str(a), str(b)) for a, b in zip(field.values, question.values, strict=True) if None not in (a, b)]
    same = sum(a.strip() == b.strip() for a, b in pairs)
    if pairs and same >= MOST * len(pairs):
        return f"it is the prompt again in {same} of {len(field.values)} rows"
    if len(field.present) > 8 and len({*map(str, field.present)}) == 1:
        return "it has one value in all rows"
    return "it asks questions" if is_asked(field) and not is_asked(question) else None


def _is_flat(value: object) -> bool:
    """Whether a value is an object of texts and numbers, which json_fields can compare."""
    return isinstance(value, dict) and all(isinstance(inner, str | int | float) for inner in value.values())


def by_name(fields: Iterable[DataField], kind: str) -> list[DataField]:
    """The fields whose names are known for this kind of column, the best first."""
    names = words()[kind]
    known = [(name, each) for each in fields for name in (each.plain_name, plain(each.column)) if name in names]
    ranked = sorted(known, key=lambda pair: names.index(pair[0]))
    return list({each.expression: each for _, each in ranked}.values())


def named(fields: Sequence[DataField], column: str, option: str) -> list[DataField]:
    """The fields of the column that an option names. Raises Refusal without any."""
    chosen = [field for field in fields if field.column == column]
    if not chosen:
        columns = list(dict.fromkeys(field.column for field in fields))
        near = nearest_words(column, columns, cutoff=0.5)
        because = f"the columns are {join_items(columns, 10)}"
        raise Refusal.of(
            f"no column is named {column}", because=because, fix=f"{option} {(*near, *columns, 'COLUMN')[0]}"
        )
    return chosen


def choose_question(fields: Sequence[DataField], column: str | None) -> tuple[DataField, str]:
    """The field of the prompt, and why. Raises Refusal if there is none, or several that nothing distinguishes."""
    can = [field for field in (fields if column is None else named(fields, column, "--question")) if is_question(field)]
    if column is not None and can:
        return can[0], "--question names it"
    if usual := by_name(can, "questions"):
        return usual[0], "its name is usual for questions"
    asked = [field for field in can if is_asked(field)]
    # A text that only rates or classifies has few different values.
    varied = [field for field in can if len({*field.present}) > len(field.present) / 2]
    ways = ((asked, "it ends with a question mark"), (can, "no other column has"), (varied, "it differs most"))
    for chosen, because in ways:
        if len(chosen) == 1:
            return chosen[0], because
    if len(can) == 2:
        return can[0], f"it comes before {can[1].expression}, the only other column of texts"
    columns = list(dict.fromkeys(field.column for field in can))
    if not columns:
        because = "; ".join(f"{each.column} has values such as {sample(each)}" for each in fields[:5])
        fix = "a column of texts, or of messages with role and content; --question COLUMN to choose one"
        raise Refusal.of("no column can be the prompt", because=because, fix=fix)
    because = f"{join_items(columns, 8)} have texts, and no name is usual, such as question, problem or prompt"
    raise Refusal.of("several columns could be the prompt", because=because, fix="--question with one of them")


def choose_answer(judged: Sequence[RightAnswer], column: str | None) -> tuple[RightAnswer | None, str]:
    """The right answer, and why. None if no column can have it. Raises Refusal if nothing distinguishes several."""
    if column is not None:
        best = [each for each in judged if each.kind] or judged
        return (best[0], "--answer names it") if best else (None, "")
    usual = by_name((each.field for each in judged), "answers")
    ranked = sorted((each for each in judged if each.field in usual), key=lambda each: usual.index(each.field))
    ranked += [each for each in judged if each.field.role == "assistant"]
    others = [each for each in judged if each not in ranked and each.field.plain_name not in words()["worked"]]
    for group, because in (
        ([each for each in ranked if each.kind and not each.is_marked], "its name is usual for answers"),
        ([each for each in judged if each.kind and each.is_marked], "it has marked results"),
        (ranked, "its name is usual for answers"),
    ):
        if group:
            return group[0], "the last turn is the model's" if group[0].field.role else because
    exact = [each for each in others if each.kind] or others
    if len(exact) < 2:
        return (exact[0], "no other column can be the answer") if exact else (None, "")
    columns = join_items(list(dict.fromkeys(each.field.column for each in exact)), 8)
    texts = [f"{each.field.column} has {each.kind or 'texts'} such as {sample(each.field)}" for each in exact[:5]]
    fix = f"--answer with one of {columns}"
    raise Refusal.of("several columns could be the right answer", because="; ".join(texts), fix=fix)


def sample(field: DataField) -> str:
    """The first value of a field, for a message."""
    return shorten(repr(field.present[0]), 40) if field.present else "null"


def choose_tests(fields: Sequence[DataField]) -> RightAnswer | None:
    """The field with tests of code, as the reward code_tests reads them."""
    entry = next((each for each in fields if each.plain_name == "entrypoint"), None)
    for field in fields:
        whole = f"{field.expression} | tojson"
        checked = "" if entry is None else f"[{field.expression} ~ '\\n\\ncheck(' ~ {entry.expression} ~ ')'] | tojson"
        for fits, solution in (
            (_are_statements, field.expression if field.expression == "tests" else whole),
            (lambda value: isinstance(value, dict) and {"inputs", "outputs"} <= value.keys(), whole),
            (lambda value: isinstance(value, str) and _INPUTS.match(value), field.expression),
            (lambda value: isinstance(value, str) and "def check(" in value, checked),
        ):
            if solution and field.share(fits) == 1:
                reward = {"name": "code_tests", "weight": 1.0}
                return RightAnswer(field, solution, "tests of code", (reward,), CODE, into="tests")
    return None


def _are_statements(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, str) and _STATEMENT.match(v) for v in value)


def choose_options(fields: Sequence[DataField], question: DataField, column: str | None) -> RightAnswer | None:
    """The field that names the right one of several options; None if the values do not fit together."""
    keys = [field for field in fields if field.column != question.column and column in (None, field.column)]
    keys = [*by_name(keys, "answers"), *keys]
    for field in fields:
        if field.plain_name in words()["answers"] or field.share(lambda value: _are_options(_as_list(value))) < 1:
            continue
        beside = [each for each in fields if each.column == field.column and each.share(_are_options) == 1]
        labels = next((each for each in beside if each.plain_name == "label"), None)
        lists = [[*map(str, _as_list(value))] for value in field.values]
        letters = LETTERS[: max(map(len, lists))]
        has_letters = all(re.match(r"\(?[A-J][).:]", option) for options in lists for option in options)
        sign = f"{labels.expression}[loop.index0]" if labels else f"'{letters}'[loop.index0]"
        line = "{{ option }}" if has_letters else f"{{{{ {sign} }}}}. {{{{ option }}}}"
        text = f"{{% for option in {field.expression} %}}\n{line}{{% endfor %}}"
        for key in keys:
            if field is not labels and (solution := _letter(key, lists, field.expression, labels)) is not None:
                if isinstance(field.present[0], str):
                    because = f"{field.column} has lists written as text, such as {sample(field)}"
                    fix = f"a .jsonl file in which {field.column} is a list"
                    raise Refusal.of("no template can read the options of the choice", because=because, fix=fix)
                return _option(key, solution, f"one of {field.expression}", text, [field.column])
    return _options_in_columns(fields, keys)


def _options_in_columns(fields: Sequence[DataField], keys: Sequence[DataField]) -> RightAnswer | None:
    """The options of columns such as A, B, C, or option_1, option_2."""
    stems: dict[str, list[DataField]] = {}
    for field in fields:
        if field.expression == field.column and field.present and (match := _OPTION.fullmatch(field.column)):
            stems.setdefault(match[1], []).append(field)
    for group in stems.values():
        columns = [field.column for field in group]
        ends = "".join(column[-1].upper() for column in columns)
        if len(group) < 2 or ends not in (LETTERS[: len(group)], "123456789"[: len(group)]):
            continue
        lists = [[*map(str, values)] for values in zip(*(field.values for field in group), strict=True)]
        text = "\n".join(f"{LETTERS[index]}. {{{{ {column} }}}}" for index, column in enumerate(columns))
        for key in keys:
            if key not in group and (solution := _letter(key, lists, f"[{', '.join(columns)}]", None)) is not None:
                return _option(key, solution, f"one of {', '.join(columns)}", "\n" + text, columns)
    return None


def _option(key: DataField, solution: str, kind: str, text: str, columns: Sequence[str]) -> RightAnswer:
    reward = {"name": "exact_match", "weight": 1.0}
    return RightAnswer(key, solution, kind, (reward,), LETTER, longest=1, options=f"\n{text}", columns=tuple(columns))


def _as_list(value: object) -> list[Any]:
    """A list, also of a text that Python wrote; an empty one for any other value."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in the user's text
            value = literal_eval(value) if isinstance(value, str) and value.startswith("[") else value
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _are_options(value: object) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(isinstance(v, str | int | float) for v in value)


def _letter(key: DataField, lists: Sequence[list[str]], expression: str, labels: DataField | None) -> str | None:
    """The expression of the right letter, if the key is a letter, an index or an option's text in all rows."""
    pairs = [(value, each) for value, each in zip(key.values, lists, strict=True) if value is not None and each]
    if not pairs or not all(isinstance(value, str | int) and not isinstance(value, bool) for value, _ in pairs):
        return None
    if labels is not None:
        of_rows = zip(key.values, labels.values, strict=True)
        return key.expression if all(a is None or b is None or a in b for a, b in of_rows) else None
    texts = [(str(value).strip(), each) for value, each in pairs]
    letters = LETTERS[: max(len(each) for _, each in pairs)]
    if all(len(text) == 1 and text.upper() in LETTERS[: len(each)] for text, each in texts):
        return f"{key.expression} | upper" if any(text.islower() for text, _ in texts) else key.expression
    if (
        all(isinstance(value, str) and value.strip() in each for value, each in pairs)
        and len({each.index(text) for text, each in texts}) > 1
    ):
        return f"'{letters}'[{expression}.index({key.expression})]"
    if all(text.isdecimal() and int(text) <= len(each) for text, each in texts):
        numbers = [(int(text), len(each)) for text, each in texts]
        whole = key.expression if all(isinstance(value, int) for value, _ in pairs) else f"({key.expression} | int)"
        if all(number < count for number, count in numbers):
            return f"'{letters}'[{whole}]"
        return f"'{letters}'[{whole} - 1]" if all(number > 0 for number, _ in numbers) else None
    return None
