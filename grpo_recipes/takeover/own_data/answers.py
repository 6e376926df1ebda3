"""What right answers are, by their values: the template that cuts them out, and the shipped reward that judges them."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from grpo_recipes.takeover.own_data.fields import MOST, DataField
from grpo_recipes.takeover.own_data.rows import words

LABELS, ROWS_OF_A_LABEL, LONGEST_LABEL = 20, 5, 40
LONGEST_SHORT, MOST_WORDS = 60, 8
CLASSES = "numbers of classes"
NUMBERS = "numbers or formulas"
FORMAT = {"name": "tag_format", "weight": 0.2, "options": {"tags": ["think", "answer"]}}
IN_TAGS = "Think inside <think></think>, then give the answer inside <answer></answer>."
REASONED = r"Reason step by step, then give the final answer in \boxed{}."
_NUMBER = re.compile(r"[-+]?[$€£]?\s?\d[\d,.]*(\s?/\s?\d+)?\s?[%°]?")
_FORMULA = re.compile(r"(?=.*[\d\\=^]|[A-Za-z]$)[\w\s\\{}()\[\]+\-*/^=.,:;<>|!$%°'&~]{1,80}")
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")
_TAGS = re.compile(r"\s*<think>.*</think>\s*<answer>.*</answer>\s*", re.S)


class Marker(NamedTuple):
    """A sign before the result of a worked solution.

    sign: in every text. pattern: that the text matches besides. cut: what follows the expression in the template.
    """

    words: str
    sign: str
    pattern: str
    cut: str


MARKERS = (
    Marker("after ####", "####", "", ".split('####')[-1] | trim"),
    Marker(r"in \boxed{}", "boxed{", r"boxed\{[^{}]*\}[^{}]*\Z", ".split('boxed{')[-1].split('}')[0] | trim"),
    Marker(r"in \boxed{}", "boxed{", "", ""),  # accuracy reads a box with braces in it by itself
    Marker("in <answer> tags", "<answer>", "</answer>", ".split('<answer>')[-1].split('</answer>')[0] | trim"),
    Marker("after 'answer is'", "nswer is", "", r".split('nswer is')[-1].strip(' :.*$\n')"),
    Marker("after 'Answer:'", "nswer:", "", r".split('nswer:')[-1].strip(' .*$\n')"),
)


class RightAnswer(NamedTuple):
    """A right answer and its reward. kind: in words; "" for free text, which no shipped reward can judge.

    solution: its expression. system: what the prompt asks for. unfit: the indexes of the rows that are not of the kind.
    condition: an expression that is True for the rows that have the answer. longest: bytes of the longest answer. into:
    the column that the rewards read. options: the end of the prompt, which lists the options of the columns.
    """

    field: DataField
    solution: str
    kind: str
    rewards: tuple[dict[str, Any], ...] = ()
    system: str = ""
    unfit: tuple[int, ...] = ()
    condition: str = ""
    longest: int = 0
    into: str = "solution"
    options: str = ""
    columns: tuple[str, ...] = ()

    @property
    def is_marked(self) -> bool:
        """Whether a marker in a longer text shows where the answer is."""
        return self.condition != ""


def judge(field: DataField, cut_out: Callable[[str], list[str | None]], names: Sequence[str] = ()) -> RightAnswer:
    """How the values of a field can be judged. cut_out: the texts of a template in all rows, None if it fails.

    names: of the classes that the values count.
    """
    for marker in MARKERS:
        if field.share(marker_fits(marker)) < MOST:
            continue
        solution = field.expression + marker.cut
        texts = cut_out(f"{{{{ {solution} }}}}")
        marked = _judge_texts(field, solution, texts if marker.cut else _boxes(texts))
        if marked.kind:
            if marked.kind == NUMBERS and field.share(lambda value: _TAGS.fullmatch(str(value))) >= MOST:
                marked = marked._replace(rewards=(*marked.rewards, FORMAT), system=IN_TAGS)
            condition = f"{marker.sign!r} in {field.expression}"
            return marked._replace(kind=f"{marked.kind}, {marker.words}", condition=condition)
    if names and field.share(lambda value: isinstance(value, int) and 0 <= value < len(names)) == 1:
        solution = f"{json.dumps([*names], ensure_ascii=False)}[{field.expression}]"
        return _labels(field, solution, [*map(str, names)], f"classes with the names {', '.join(names)}")
    if field.share(lambda value: isinstance(value, bool)) == 1:
        return _labels(field, f"'yes' if {field.expression} else 'no'", ["yes", "no"], "True or False")
    classes = sorted({*map(str, field.present)})
    if field.plain_name in words()["classes"] and len(classes) <= LABELS and all(map(str.isdecimal, classes)):
        return _labels(field, field.expression, classes, CLASSES)
    if field.share(lambda value: isinstance(value, dict)) == 1:
        solution = f"{field.expression} | tojson"
        return _judge_texts(field, solution, cut_out(f"{{{{ {solution} }}}}"))
    return _judge_texts(field, field.expression, [None if value is None else str(value) for value in field.values])


def marker_fits(marker: Marker) -> Callable[[object], bool]:
    """Whether a value is a text with the marker."""
    return lambda value: (
        isinstance(value, str) and marker.sign in value and re.search(marker.pattern, value, re.S) is not None
    )


def _judge_texts(field: DataField, solution: str, texts: Sequence[str | None]) -> RightAnswer:
    """The first kind that nearly all texts are of."""
    present = [text.strip() for text in texts if text is not None and text.strip()]
    if any(isinstance(value, list) for value in field.present) or not present:
        return RightAnswer(field, solution, "")
    labels = list(dict.fromkeys(present))
    is_rare = len(labels) > LABELS or len(present) < ROWS_OF_A_LABEL * len(labels) or len(labels) == 1
    is_number = sum(is_result(text) and not text.isalpha() for text in present) >= MOST * len(present)
    if not (is_rare or is_number) and all(label.isprintable() and len(label) <= LONGEST_LABEL for label in labels):
        return _labels(field, solution, labels, f"one of {len(labels)} labels")
    for kind, fits, reward, system in (
        ("JSON lists of calls", _is_calls, "function_calls", 'Answer with a JSON list of {"name", "arguments"} only.'),
        ("JSON objects", _is_object, "json_fields", f"Answer with a JSON object{_keys(present)} and nothing else."),
        (NUMBERS, is_result, "accuracy", REASONED),
        ("short texts", _is_short, "exact_match", "Give only the answer, without an explanation."),
    ):
        unfit = tuple(index for index, text in enumerate(texts) if text and text.strip() and not fits(text.strip()))
        if len(unfit) <= (1 - MOST) * len(present):
            options = {"options": {"ignore_case": True}} if reward == "exact_match" else {}
            longest = max(len(text.encode()) for text in present)
            rewards = ({"name": reward, "weight": 1.0, **options},)
            return RightAnswer(field, solution, kind, rewards, system, unfit, longest=longest)
    return RightAnswer(field, solution, "")


def _labels(field: DataField, solution: str, labels: list[str], kind: str) -> RightAnswer:
    reward = {"name": "exact_match", "weight": 1.0, "options": {"ignore_case": True}}
    system = f"Answer with one of: {', '.join(labels)}. Write nothing else."
    return RightAnswer(field, solution, kind, (reward,), system, longest=max(len(label.encode()) for label in labels))


def is_result(text: str) -> bool:
    """Whether a text is a number or a formula, which the reward `accuracy` compares by its value."""
    if re.match(r"[-+]?0\d", text):
        return False  # a code, such as 007
    if _NUMBER.fullmatch(text):
        return True
    return _FORMULA.fullmatch(text) is not None and not _WORD.search(re.sub(r"\\text\w*\{[^}]*\}", "1", text))


def _boxes(texts: Sequence[str | None]) -> list[str | None]:
    """The texts in \\boxed{}, without what follows."""
    return [text and text.rpartition("boxed{")[2].rpartition("}")[0] for text in texts]


def _json_of(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_object(text: str) -> bool:
    value = _json_of(text)
    return isinstance(value, dict) and bool(value)


def _is_calls(text: str) -> bool:
    value = _json_of(text)
    calls = value if isinstance(value, list) else []
    return bool(calls) and all(isinstance(call, dict) and {*call} == {"name", "arguments"} for call in calls)


def _keys(texts: Sequence[str]) -> str:
    """The keys that all objects have, for the prompt; "" if there are none."""
    objects = [value for text in texts if isinstance(value := _json_of(text), dict)]
    shared = [
        key for key in (objects[0] if objects else {}) if key.isprintable() and all(key in value for value in objects)
    ]
    return f" that has the keys {', '.join(shared)}" if shared else ""


def _is_short(text: str) -> bool:
    return len(text) <= LONGEST_SHORT and len(text.split()) <= MOST_WORDS and "\n" not in text
