"""Mutilated recipes: texts that were cut, doubled, moved, mistyped, and values of every wrong kind."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

Path = tuple[str | int, ...]
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 7, 3.5, -0.5, 1e308, -1e-320, 2**63, -(2**63) - 1, 10**40, 0.1),
    *(float("inf"), float("-inf"), float("nan"), "", " ", "auto", "none", "None", "no", "true", "1e-5", "８", "½"),
    *("ü\u0301", "\u202e", "💥" * 40, "x" * 5_000, "a.b", "..", "/", "/dev/null", "/dev/zero", "~", "%s{}", "{{", "{%"),
    *("{{ x }}", "{{ x | nothing }}", "{% for %}", "${HOME}", "!!python/object", "&a", "*a", "<<", "- x", "a: b", "#"),
    *("\t", "\n", "\\boxed", "[", "'", '"', "http://x", "git+ssh://x", "a" * 300 + "/b", "rewards.py:f", "x.py:"),
    *([], [[]], [None], [1, "x", {}], {}, {"": 1}, {"a": {"b": {"c": [1]}}}, ["x"] * 200, {"x": None}),
    *({str(n): n for n in range(60)}, [1.5], ["auto"], [True], {"name": "accuracy"}, {"python": 1}),
)
TOKENS = (
    *(
        "&a ",
        "*a",
        "!!str ",
        "!x ",
        "!!binary ",
        "<<: *a",
        "? ",
        "- ",
        ": ",
        "| ",
        "> ",
        ">-\n",
        "{",
        "}",
        "[",
        "]",
        ",",
    ),
    *("'", '"', "\\", "#", "%YAML 1.1\n---\n", "---\n", "...\n", "\t", "\r\n", "\r", "\x00", "\x07", "\x85", "\u2028"),
    *(
        "\ufeff",
        "\u200b",
        "é",
        "💥",
        "0x1F",
        "0o7",
        "010",
        "1_000",
        "1:30",
        "1e999",
        ".nan",
        "-.inf",
        "yes",
        "~",
        "null",
    ),
    *("@", "`", "=", "*", "&", "!", "  ", "        ", "\n", "\n\n", "a: ", "extends: x.yaml\n", "extends: .\n"),
)


def paths(values: object, above: Path = ()) -> Iterator[Path]:
    """The path of every value, the whole first."""
    yield above
    inside = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    for key, value in inside:
        yield from paths(value, (*above, key))


def _nested(value: object, depth: int, draw: random.Random) -> object:
    for _ in range(depth):
        value = [value] if draw.random() < 0.5 else {"a": value}
    return value


def _mutated_value(draw: random.Random, value: object) -> object:
    match draw.randrange(6):
        case 0:
            return str(value)
        case 1:
            return _nested(value, draw.choice([1, 2, 31, 32, 33, 200]), draw)
        case 2 if isinstance(value, int | float):
            return draw.choice([-value, value * 1e6, value + 0.5, float(value), [value]])
        case 3 if isinstance(value, str):
            return draw.choice([value[::-1], value.upper(), value + "x", value[:-1], value * 50, [value]])
    return draw.choice(VALUES)


def mutated_values(draw: random.Random, values: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """A copy with one value removed, replaced, moved, renamed or doubled. names: keys of the whole format."""
    values = copy.deepcopy(values)
    path = draw.choice([path for path in paths(values) if path])
    holder: Any = values
    for part in path[:-1]:
        holder = holder[part]
    value = holder[path[-1]]
    match draw.randrange(6):
        case 0:
            del holder[path[-1]]
        case 1 if isinstance(holder, list):
            holder.append(copy.deepcopy(value))
        case 1 | 2:
            where = draw.choice([values, *(v for v in values.values() if isinstance(v, dict))])
            name = draw.choice(names) if draw.random() < 0.7 else str(draw.choice(VALUES))[:40]
            where[name] = draw.choice(VALUES) if draw.random() < 0.7 else copy.deepcopy(value)
        case _:
            holder[path[-1]] = _mutated_value(draw, value)
    return values


def as_text(values: dict[str, Any]) -> str:
    """The values as YAML: JSON but for its words for numbers that are none."""
    text = json.dumps(values, ensure_ascii=False, indent=1)
    return text.replace("-Infinity", "-.inf").replace("Infinity", ".inf").replace("NaN", ".nan")


def _lines(change: Callable[[random.Random, list[str]], None]) -> Callable[[random.Random, str], str]:
    def changed(draw: random.Random, text: str) -> str:
        lines = text.splitlines(keepends=True) or ["\n"]
        change(draw, lines)
        return "".join(lines)

    return changed


def _drop(draw: random.Random, lines: list[str]) -> None:
    del lines[draw.randrange(len(lines))]


def _double(draw: random.Random, lines: list[str]) -> None:
    lines.insert(draw.randrange(len(lines)), draw.choice(lines))


def _swap(draw: random.Random, lines: list[str]) -> None:
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]


def _indent(draw: random.Random, lines: list[str]) -> None:
    place = draw.randrange(len(lines))
    line = lines[place]
    lines[place] = draw.choice([" " + line, "   " + line, "\t" + line, line.lstrip(" "), line[1:]])


def _cut(draw: random.Random, text: str) -> str:
    start = draw.randrange(len(text) + 1)
    return text[:start] if draw.random() < 0.5 else text[:start] + text[start + draw.randint(1, 60) :]


def _insert(draw: random.Random, text: str) -> str:
    place = draw.randrange(len(text) + 1)
    return text[:place] + draw.choice(TOKENS) * draw.choice([1, 1, 1, 2, 40]) + text[place:]


def _replace_value(draw: random.Random, text: str) -> str:
    """What stands after a colon is another value, as JSON writes it or without its quotes."""
    colons = [place for place, letter in enumerate(text) if letter == ":"]
    if not colons:
        return text
    place = draw.choice(colons) + 1
    end = text.find("\n", place)
    value = draw.choice(VALUES)
    said = value if isinstance(value, str) and draw.random() < 0.5 else as_text(value)
    return f"{text[:place]} {said}{text[end:] if end >= 0 else ''}"


def _type(draw: random.Random, text: str) -> str:
    place = draw.randrange(len(text) + 1)
    return (
        text[:place]
        + chr(draw.choice([draw.randrange(32, 127), draw.randrange(0x110000 - 0x2000)]))
        + text[place + 1 :]
    )


TEXT_CHANGES: tuple[Callable[[random.Random, str], str], ...] = (
    *(_lines(_drop), _lines(_double), _lines(_swap), _lines(_indent), _cut, _insert, _insert, _replace_value, _type),
)


def mutated(draw: random.Random, text: str, values: dict[str, Any], names: list[str]) -> bytes:
    """One mutilated recipe, of its text or of its values; sometimes its bytes are broken too."""
    if draw.random() < 0.5:
        for _ in range(draw.choice([1, 1, 1, 2, 3])):
            values = mutated_values(draw, values, names) or values
        text = as_text(values)
    else:
        for _ in range(draw.choice([1, 1, 2, 3])):
            text = draw.choice(TEXT_CHANGES)(draw, text)
    data = text.encode("utf-8", errors="surrogatepass")
    if draw.random() < 0.03:
        place = draw.randrange(len(data) + 1)
        data = data[:place] + draw.randbytes(draw.choice([1, 4, 64])) + data[place:]
    return data
