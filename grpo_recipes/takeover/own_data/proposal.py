"""Proposes prompt, right answer and filter for the rows of a file, each with its reason."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.findings.wording import join_items, shorten
from grpo_recipes.contract.prompt_shape import IMAGE_TAG
from grpo_recipes.takeover.own_data.answers import CLASSES, RightAnswer, judge
from grpo_recipes.takeover.own_data.columns import (
    by_name,
    choose_answer,
    choose_options,
    choose_question,
    choose_tests,
    is_system,
    named,
    why_no_answer,
)
from grpo_recipes.takeover.own_data.fields import MOST, DataField, can_be_named, fields_of, has_content, is_image
from grpo_recipes.takeover.own_data.rows import FirstRows

AFTER = ("input", "options", "choices")
"""Names of texts that follow the question."""


class Proposal(NamedTuple):
    """Keys of the recipe's section dataset, each with its value and its reason, and what decides the rewards.

    answer: None if the rows have none. why: its reason. look_at: what the user should check. shown: the prompt and the
    right answer of a row. complete: the number of rows that have both.
    """

    keys: dict[str, tuple[Any, str]]
    answer: RightAnswer | None
    why: str
    look_at: list[str]
    shown: tuple[str, str]
    complete: int


def propose(rows: FirstRows, question: str | None = None, answer: str | None = None) -> Proposal:
    """The proposal for the rows. question, answer: columns that the user names. Raises Refusal without a prompt."""
    keys: dict[str, tuple[Any, str]] = {}
    fields, total = fields_of(rows), len(rows.rows)
    images = next((each for each in fields if each.share(lambda value: is_image(value, rows.folder)) >= MOST), None)
    if images is not None:
        keys["images"] = images.column, f"images in {_count(images)}"
        fields = [each for each in fields if each.column != images.column]
    asked, why_asked, right, why = _choose(rows, fields, question, answer)
    beside, gold = _beside(fields, asked, right), [right.field] if right else []
    system = [*filter(is_system, fields)][:1]
    for each in (asked, *beside, *system, *gold):
        _check(each, rows.late)
    is_constant = bool(system) and len(system[0].present) == total and len({*system[0].present}) == 1
    is_constant = is_constant and system[0].present[0].replace("\n", "").isprintable()
    if asks := [*(system[0].present[:1] if is_constant else []), *([right.system] if right and right.system else [])]:
        because = f"{system[0].expression} is the same in all rows; " if is_constant else ""
        keys["system_prompt"] = " ".join(asks), f"{because}the last sentence asks for what the reward reads"
    prompt = _prompt([*([] if is_constant else system), *beside], asked, total) + (right.options if right else "")
    keys["prompt"] = prompt, f"{asked.expression} has text in {_count(asked)}: {why_asked}"
    solution = f"{{{{ {right.solution} }}}}" if right else "-"
    if right:
        if right.solution != right.into:
            keys["columns"] = {right.into: solution}, f"{right.field.expression} has the answers: {why}"
        why = f"{right.field.expression} has {right.kind or 'free text'} in {_count(right.field, right.unfit)}"
    if incomplete := _incomplete(asked, right, total):
        keys["filter"] = f"{{{{ {' and '.join(incomplete)} }}}}", "rows without a value cannot be used"
    used = {each.column for each in (asked, *beside, *system, *gold, *([images] if images else []))}
    used |= {*right.columns} if right else set()
    look_at = _doubts(fields, asked, right, total)
    if unused := [name for name in rows.columns if name not in used]:
        look_at.append(f"unused columns: {join_items(unused, 12)}")
    pairs = zip(render(rows, prompt), render(rows, solution), strict=True)
    complete = [(text, right_text) for text, right_text in pairs if text and right_text]
    if not complete:
        because = (
            f"of {asked.expression}{f' and {right.field.expression}' if right else ''}, one is missing in each row"
        )
        raise Refusal.of(
            "no row has a prompt and an answer", because=because, fix="--question and --answer with others"
        )
    return Proposal(keys, right, why, look_at, complete[0], len(complete))


def render(rows: FirstRows, template: str) -> list[str | None]:
    """The text of a template for each row, None where it cannot be filled."""
    from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, keep_trailing_newline=True, finalize=_refuse_null
    )
    try:
        compiled = environment.from_string(template)
    except TemplateSyntaxError:  # a column's name, which is refused if the column is chosen
        return [None for _ in rows.rows]
    texts: list[str | None] = []
    for row in rows.rows:
        try:
            texts.append(compiled.render(row))
        except (TemplateError, TypeError, LookupError, AttributeError, ValueError):  # a value is missing, or of a type
            texts.append(None)
    return texts


def _refuse_null(value: object) -> object:
    if value is None:
        raise ValueError("a value is missing")
    return value


def _choose(
    rows: FirstRows, fields: Sequence[DataField], question: str | None, answer: str | None
) -> tuple[DataField, str, RightAnswer | None, str]:
    """The fields of prompt and right answer, each with the reason."""
    tests = choose_tests(fields)
    can_ask = [each for each in fields if question is not None or tests is None or each is not tests.field]
    asked, why_asked = choose_question(can_ask, question)
    if tests:
        return asked, why_asked, tests, "code has to pass them"
    if right := choose_options(fields, asked, answer):
        return asked, why_asked, right, "the values of the columns fit together"
    can = fields if answer is None else named(fields, answer, "--answer")
    can = [each for each in can if each.expression != asked.expression and not why_no_answer(each, asked)]
    names = rows.class_names
    judged = [judge(each, lambda text: render(rows, text), names.get(each.column, ())) for each in can]
    return asked, why_asked, *choose_answer(judged, answer)


def _beside(fields: Sequence[DataField], asked: DataField, right: RightAnswer | None) -> list[DataField]:
    """The texts of the prompt besides the question: what it is about, an instruction's input, options in a text."""
    taken = {asked.column, *([right.field.column, *right.columns] if right else [])}
    texts = [each for each in fields if each.expression == each.column and each.column not in taken]
    texts = [each for each in texts if each.share(lambda value: isinstance(value, str)) == 1]
    after = [each for each in texts if each.plain_name in AFTER]
    after = [each for each in after if each.plain_name != "input" or asked.plain_name == "instruction"]
    return [*by_name(texts, "contexts"), *after]


def _prompt(beside: Sequence[DataField], asked: DataField, total: int) -> str:
    before, after = "", ""
    for each in beside:
        is_after = each.plain_name in AFTER
        text = f"\n\n{_value(each)}" if is_after else f"{_value(each)}\n\n"
        if len(each.present) < total:
            text = f"{{% if {each.condition or each.expression} %}}{text}{{% endif %}}"
        before, after = (before, after + text) if is_after else (before + text, after)
    return before + _value(asked) + after


def _value(field: DataField) -> str:
    has_tag = any(IMAGE_TAG in str(value) for value in field.present)
    without = f" | replace('{IMAGE_TAG}', '') | trim" if has_tag else ""
    return f"{{{{ {field.expression}{without} }}}}"


def _check(field: DataField, late: Collection[str]) -> None:
    """Raises Refusal for values that no template gets as they are written."""
    column = field.column
    if column in late:
        because, fix = "the first row defines the columns", "put a row that has it first"
        raise Refusal.of(f"the first row has no {column}", because=because, fix=fix)
    large = next((value for value in field.present if isinstance(value, int) and abs(value) >= 1 << 63), None)
    if large is not None:
        because = f"{shorten(str(large), 40)} becomes {float(large)!r}, because the rows are read with 64 bits"
        raise Refusal.of(
            f"{column} has numbers that are too large", because=because, fix="write them as text, in quotes"
        )
    if can_be_named(column):
        return
    name = "".join(sign if sign.isalnum() else "_" for sign in column)
    because = "templates read columns by names of letters, digits and _"
    raise Refusal.of(
        f"no template can read the column {column!r}", because=because, fix=f"rename it in the file: {name}"
    )


def _incomplete(asked: DataField, right: RightAnswer | None, total: int) -> list[str]:
    """Conditions for the filter, one for each field that lacks a value in some row."""
    conditions = []
    for each in (asked, *([right.field] if right else [])):
        if len(each.present) < total:
            conditions.append(each.has_value)
    if right and right.condition and right.unfit:
        conditions.append(right.condition)
    return conditions


def _doubts(fields: Sequence[DataField], asked: DataField, right: RightAnswer | None, total: int) -> list[str]:
    """What the user should check."""
    doubts = []
    if right is None:
        others = [each for each in by_name(fields, "answers") if each.column != asked.column]
        doubts += [f"{each.expression} is not the right answer: {why_no_answer(each, asked)}" for each in others]
    for each in (asked, *([right.field] if right else [])):
        if empty := [index for index, value in enumerate(each.values, 1) if not has_content(value)]:
            where = f"{len(empty)} of {total} rows ({join_items(empty, 5)})"
            doubts.append(f"the filter leaves out {where} without {each.expression}")
    if right and right.unfit:
        values = [f"{index + 1} ({shorten(repr(right.field.values[index]), 40)})" for index in right.unfit]
        doubts.append(f"right answers that are not {right.kind}: rows {join_items(values)}")
    if right and right.field.expression.endswith("[0]"):
        doubts.append(f"only the first of the answers in {right.field.expression[:-3]} is right")
    if right and right.kind == CLASSES:
        example = f"\"{{{{ ['NAME', 'NAME'][{right.field.expression}] }}}}\""
        doubts.append(f"{right.field.expression} counts classes: write their names, as solution: {example}")
    if asked.earlier:
        doubts.append(f"{asked.earlier} conversations have earlier turns, which the prompt leaves out")
    return doubts


def _count(field: DataField, without: Sequence[int] = ()) -> str:
    return f"{len(field.present) - len(without)} of {len(field.values)} rows"
