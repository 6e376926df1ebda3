"""The values of a file's columns, and the jinja2 expressions that read them: `answer`, `messages[0].content`."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from grpo_recipes.contract.prompt_shape import is_share_gpt
from grpo_recipes.takeover.own_data.rows import FirstRows

Role = Literal["user", "assistant", "system", ""]
MOST = 0.9
"""The share of rows that decides a guess; the other rows are reported."""
_ROLES: dict[str, Role] = {"human": "user", "gpt": "assistant", "user": "user", "assistant": "assistant"}
_ROLES["system"] = "system"
_IMAGE_FILE = re.compile(r"\S.{0,200}\.(png|jpe?g|webp|gif|bmp|tiff?)", re.I)
_NO_NAMES = frozenset(["and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None"])


class DataField(NamedTuple):
    """One value of each row, None where it is missing.

    column: of the file. name: the last part of the expression, which tells the meaning. role: of a message. earlier:
    the number of rows with questions before the user's last one. condition: see has_value.
    """

    expression: str
    column: str
    name: str
    values: list[Any]
    role: Role = ""
    earlier: int = 0
    condition: str = ""

    @property
    def has_value(self) -> str:
        """The expression that is True for the rows with a value."""
        return self.condition or f"{self.expression} is not none and {self.expression} | string | trim != ''"

    @property
    def present(self) -> list[Any]:
        """The values that are neither missing nor empty."""
        return [value for value in self.values if has_content(value)]

    def share(self, fits: Callable[[Any], object]) -> float:
        """The share of the present values that fit, 0.0 without any."""
        values = self.present
        return sum(bool(fits(value)) for value in values) / len(values) if values else 0.0

    @property
    def plain_name(self) -> str:
        """The name as lower-case letters and digits: "correctanswer" for Correct Answer."""
        return plain(self.name)


def plain(name: str) -> str:
    """A name as lower-case letters and digits."""
    return "".join(sign for sign in name.lower() if sign.isalnum())


def has_content(value: object) -> bool:
    """Whether a value is neither missing nor empty."""
    return value is not None and value != [] and value != {} and str(value).strip() != ""


def fields_of(rows: FirstRows) -> list[DataField]:
    """The fields of all columns, in the file's order; those of messages and objects follow their column's place."""
    return [field for name in rows.columns for field in _fields(name, name, name, [row[name] for row in rows.rows])]


def can_be_named(column: str) -> bool:
    """Whether a template can read a column of this name."""
    return column.isidentifier() and column not in _NO_NAMES


def is_image(value: object, folder: Path) -> bool:
    """Whether a value is an image: a file's bytes, {bytes, path} of `datasets`, a file's name, or a list of these."""
    if isinstance(value, list):
        return bool(value) and all(is_image(item, folder) for item in value)
    if isinstance(value, Mapping):
        return {*value} == {"bytes", "path"}
    is_name = isinstance(value, str) and _IMAGE_FILE.fullmatch(value) is not None
    return isinstance(value, bytes) or (is_name and (folder / str(value)).is_file())


def _fields(expression: str, column: str, name: str, values: list[Any], depth: int = 0) -> Iterator[DataField]:
    field = DataField(expression, column, name, values)
    yield field
    if depth > 2:
        return
    if field.share(lambda value: isinstance(value, Mapping)) == 1:
        for key in dict.fromkeys(key for value in field.present for key in value):
            inner = [value.get(key) if isinstance(value, Mapping) else None for value in values]
            yield from _fields(member(expression, str(key)), column, str(key), inner, depth + 1)
    elif field.share(lambda value: isinstance(value, list)) == 1:
        if field.share(_are_messages) == 1:
            yield from _of_messages(field)
        elif field.share(lambda value: all(isinstance(item, str | int | float) for item in value)) == 1:
            yield DataField(f"{expression}[0]", column, name, [value[0] if value else None for value in values])


def member(expression: str, key: str) -> str:
    """The expression of a value in an object; a name such as `items` would be the object's own method."""
    return f"{expression}[{key!r}]" if hasattr(dict, key) or not can_be_named(key) else f"{expression}.{key}"


def _are_messages(value: Sequence[object]) -> bool:
    return bool(value) and all(
        isinstance(turn, Mapping) and (is_share_gpt(turn) or {"role", "content"} <= turn.keys()) for turn in value
    )


def _of_messages(field: DataField) -> Iterator[DataField]:
    """The last user message, the answer after it, and the first system message."""
    by, key = ("from", "value") if is_share_gpt(field.present[0][0]) else ("role", "content")
    turns = [value if isinstance(value, list) else [] for value in field.values]
    places: dict[str, list[int | None]] = {}
    for role in ("system", "user", "assistant"):
        words = Counter(turn.get(by) for row in turns for turn in row if _ROLES.get(str(turn.get(by))) == role)
        if not words:
            continue
        ((word, _),) = words.most_common(1)
        indexes = [[index for index, turn in enumerate(row) if turn.get(by) == word] for row in turns]
        at = places[role] = [(of_row[0] if role == "system" else of_row[-1]) if of_row else None for of_row in indexes]
        if role == "assistant":  # the answer to the last question
            pairs = zip(at, places.get("user", at), strict=True)
            at = [None if index is None or (asked or 0) > index else index for index, asked in pairs]
        chosen = f"{field.expression} | selectattr({by!r}, 'equalto', {word!r}) | map(attribute={key!r}) | list"
        forward = {index for index in at if index is not None}
        backward = {index - len(row) for index, row in zip(at, turns, strict=True) if index is not None}
        if not forward:
            continue
        same = next((min(each) for each in (forward, backward) if len(each) == 1), None)
        expression = f"({chosen})[-1]" if same is None else member(f"{field.expression}[{same}]", key)
        values = [None if index is None else row[index].get(key) for index, row in zip(at, turns, strict=True)]
        earlier = sum(len(of_row) > 1 for of_row in indexes) if role == "user" else 0
        end = 0 if role == "system" and forward == {0} else -1 if role == "assistant" and backward == {-1} else None
        condition = f"({chosen} | length) > 0" if end is None else f"{field.expression}[{end}].{by} == {word!r}"
        yield DataField(expression, field.column, field.name, values, role, earlier, condition)
