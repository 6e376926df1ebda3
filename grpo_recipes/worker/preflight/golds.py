"""Finds the right answers that rewards are tried on: by the usual names of columns, or by what the rewards read."""

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_recipes.contract.plan import Reward
from grpo_recipes.worker.preflight._shared.seen import prompt_as_text

# Columns that may have the right answer; the first one present is used.
REFERENCES = ("solution", "answer", "ground_truth", "reference", "target", "label", "expected", "gold")
# Columns with such names that give a shipped reward the task, not the answer.
ASKED = {"countdown": "target", "follows_instruction": "ground_truth"}


@dataclass(frozen=True, slots=True)
class Gold:
    """The right answer of each row, as text. words: where it is from.

    reference: its column, None if it is made of several. is_guess: the column has none of the usual names, but a
    reward reads it; only the reward's values show whether it is the answer.
    """

    texts: list[str]
    words: str
    reference: str | None
    is_guess: bool = False


def find_gold(
    rows: Sequence[dict[str, Any]], columns: Sequence[str], rewards: Sequence[Reward], user: Path | None
) -> Gold | None:
    """Returns the right answers, None if no column is known to have them. columns: those of the templates, preferred.

    A column with a usual name that a reward reads comes first, then what else the rewards read, then other columns
    with such names. user: the folder of the rewards' files.
    """
    asked = {ASKED.get(reward.target) for reward in rewards if reward.kind == "shipped"}
    names = [name for name in REFERENCES if name not in asked]
    read = [columns_read(reward, user) for reward in rewards]
    known = [name for name in [*(name for name in names if name in columns), *names] if _has_values(rows, name)]
    usual = next((name for name in known if any(name in of_reward for of_reward in read)), None)
    if usual is None:
        own = [of_reward for reward, of_reward in zip(rewards, read, strict=True) if reward.kind == "python"]
        if guess := next(filter(None, (_read_gold(rows, of_reward) for of_reward in own)), None):
            return guess
        usual = next(iter(known), None)
    return None if usual is None else Gold(_texts(rows, usual), f"column {usual} as it is", usual)


def columns_read(reward: Reward, user: Path | None) -> frozenset[str]:
    """Returns the names that a reward reads as columns: its parameters, and what it takes from its **kwargs.

    A shipped reward may read any column with a usual name.
    """
    if reward.kind == "shipped":
        return frozenset(REFERENCES)
    file, _, name = reward.target.rpartition(":")
    if reward.kind != "python" or user is None or not (user / file).is_file():
        return frozenset()
    return _read_by(ast.parse((user / file).read_text(encoding="utf-8")).body, name) - {*reward.kwargs}


def _read_by(body: Sequence[ast.stmt], name: str) -> frozenset[str]:
    """Returns what a function reads, also one behind functools.partial(function, key=...) or an object's __call__."""
    for node in body:
        match node:
            case ast.FunctionDef(name=own) | ast.AsyncFunctionDef(name=own) if own == name:
                parameters = [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
                return frozenset([*parameters, *_taken_keywords(node)])
            case ast.Assign(targets=[ast.Name(id=own)], value=ast.Call(func=maker, args=args, keywords=given)) if (
                own == name
            ):
                if ast.unparse(maker) in ("partial", "functools.partial") and isinstance(args[0], ast.Name):
                    return _read_by(body, args[0].id) - {each.arg for each in given}
                made = [each for each in body if isinstance(each, ast.ClassDef) and each.name == ast.unparse(maker)]
                return _read_by(made[0].body, "__call__") - {"self"} if made else frozenset()
    return frozenset()


def _taken_keywords(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Returns the keys of kwargs["gold"], kwargs.get("gold") and kwargs.pop("gold")."""
    rest = None if function.args.kwarg is None else function.args.kwarg.arg
    keys: list[ast.expr] = []
    for node in ast.walk(function):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=key) if name == rest:
                keys.append(key)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get" | "pop"), args=[key, *_]) if (
                name == rest
            ):
                keys.append(key)
    return [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]


def _read_gold(rows: Sequence[dict[str, Any]], read: frozenset[str]) -> Gold | None:
    """Returns what a reward reads as right answers: an object of the columns that prompts ask for, or one column.

    A column whose words are in the prompts is the task, and one that never differs is an option.
    """
    prompts = [prompt_as_text(row["prompt"]) for row in rows]
    plain = [name for name in rows[0] if name in read and name != "prompt" and _is_plain(rows, name)]
    if len(plain) > 1 and all(_asks_for_object(prompt, plain) for prompt in prompts):
        texts = [json.dumps({name: row[name] for name in plain}, ensure_ascii=False) for row in rows]
        return Gold(texts, f"columns {', '.join(plain)} as JSON", None, is_guess=True)
    hidden = [
        name
        for name in plain
        if len({str(row[name]) for row in rows}) > 1
        if not any(_is_shown(str(row[name]), prompt) for row, prompt in zip(rows, prompts, strict=True))
    ]
    if len(hidden) != 1:
        return None
    return Gold(_texts(rows, hidden[0]), f"column {hidden[0]} as it is", hidden[0], is_guess=True)


def _is_plain(rows: Sequence[dict[str, Any]], name: str) -> bool:
    return all(isinstance(row[name], str | int | float) and not isinstance(row[name], bool) for row in rows)


def _asks_for_object(prompt: str, names: Sequence[str]) -> bool:
    return "json" in prompt.lower() and all(re.search(rf"\b{re.escape(name)}\b", prompt) for name in names)


def _is_shown(value: str, prompt: str) -> bool:
    """Whether all words of a value are in the prompt."""
    words = {*re.findall(r"\w+", prompt.lower())}
    return bool(value.strip()) and words.issuperset(re.findall(r"\w+", value.lower()))


def _texts(rows: Sequence[dict[str, Any]], name: str) -> list[str]:
    return ["" if row[name] is None else str(row[name]) for row in rows]


def _has_values(rows: Sequence[dict[str, Any]], name: str) -> bool:
    values = [row.get(name) for row in rows]
    return any(isinstance(value, str | int | float) and str(value).strip() for value in values)
