"""`grpo-run explain`: the page of an id or a key."""

import inspect
import json
import re
import textwrap
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from grpo_recipes.contract.findings.finding import path_text
from grpo_recipes.contract.findings.wording import nearest_words, value_text
from grpo_recipes.explain.pages import id_page, known_ids, reward_page
from grpo_recipes.facts.classified import classified_fields, fields_by_home
from grpo_recipes.facts.facts import Facts
from grpo_recipes.facts.released import history as tables
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.resolve import rename
from grpo_recipes.resolve.resolve import Resolution
from grpo_recipes.rewards.catalog import shipped_rewards
from grpo_recipes.rules.catalog import rules
from grpo_recipes.schemas.export import field_docs
from grpo_recipes.schemas.fast_accept import OF_ITEMS, keys_named, recipe_keys
from grpo_recipes.schemas.models import sections
from grpo_recipes.schemas.other_names import algorithm_row, key_row
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.schemas.section import fields_by_key, is_required_key


def explain(word: str, facts: Facts) -> str | None:
    """The page of an id, a key, a shipped reward, a word of the field or an algorithm; None if it does not exist."""
    page = id_page(word)
    if page is not None:
        return page
    word = word.strip().replace(" ", "_").replace("-", "_")
    if word == tables.TABLE:
        return task_list()
    known = [name for name in (word, f"{word}s") if name in recipe_keys()]  # "reward" means the section
    key = next(iter([*known, *keys_named(word)]), None)
    if key is not None:
        return key_page(key, facts)
    if word.removeprefix("dataset.").startswith(f"{tables.TABLE}."):
        return task_page(word.rpartition(".")[2])
    page = field_page(word.removeprefix("trl."), facts) or topic_page(word)
    page = page or reward_page(word.removeprefix("rewards.")) or _page_of_another_name(word, facts)
    return page or algorithm_page(word)


def _page_of_another_name(word: str, facts: Facts) -> str | None:
    """The page of the key for another program's name, or why there is none."""
    section, _, name = word.rpartition(".")
    row = key_row(section, name)
    if row is None:
        return None
    if "home" not in row:
        return f"{word}: {row['because']}\n\n{row['instead'].replace('remove it', f'remove {name}', 1)}"
    page = explain(row["home"], facts) or f"write it as {row['home']}"
    return f"{word} is a name of {row['tools']}{': ' * ('differs' in row)}{row.get('differs', '')}\n\n{page}"


@cache
def topics() -> list[dict[str, Any]]:
    """The topics. names: the terms of a topic; says: the equivalent here; see: keys, ids and GRPOConfig fields, as
    `trl.NAME`.
    """
    table: list[dict[str, Any]] = json.loads(Path(__file__).with_name("topics.json").read_text(encoding="utf-8"))
    return table


def topic_page(word: str) -> str | None:
    """The page of a term, with the keys and rules about it; None for a term without a topic."""
    spoken = word.lower().replace("_", " ").replace("-", " ")
    row = next((row for row in topics() if {spoken, spoken.removesuffix("s")} & {*row["names"]}), None)
    if row is None:
        return None
    pages = _rows([(name, _sentence(_meaning(name))) for name in row["see"]])
    return "\n".join([textwrap.fill(row["says"], _WIDTH), "", "see also:", *pages])


def _meaning(name: str) -> str:
    """The text of an id, a key or a field of GRPOConfig."""
    if (page := known_ids().get(name)) is not None:
        return page
    if name.startswith("trl."):
        return str(table("field_help").get(name.removeprefix("trl."), ""))
    section, _, key = name.rpartition(".")
    model = sections()[section]
    return field_docs(model).get(key) or inspect.cleandoc(sections().get(key, model).__doc__ or "")


def algorithm_page(word: str) -> str | None:
    """How a recipe expresses an algorithm of this name, None for an unknown one."""
    row = algorithm_row(word)
    if row is None:
        return None
    if "set" not in row:
        return f"{row['because']}; the nearest is {row['nearest']}"
    written = [f"  {key}: {json.dumps(value)}" for key, value in row["set"].items()]
    return "\n".join([row["because"], *(["", "grpo:", *written] if written else [])])


def keys_of(word: str) -> tuple[str, ...]:
    """The full keys for the last part of a key, another program's name, or TRL's own field; no sections."""
    row, field = key_row("", word) or {}, classified_fields().get(word)
    same = (word,) if word in recipe_keys() else keys_named(word)
    named = tuple(key for key in same if key not in sections() and not key.startswith(OF_ITEMS))
    own = tuple(key for key in recipe_keys() if field is not None and field.owner == f"write {key}")
    if field is not None and field.owner is None:
        own = (f"trl.{word}",)
    return named or ((row["home"],) if "home" in row else own)


def set_here(key: str, resolution: Resolution) -> str:
    """The value of a key in a recipe, and its origin; "" for a key that its plan does not have."""
    context = resolution.context
    if context is None:
        return ""
    names = (key, key.removeprefix("trl."), f"GRPOConfig.{key.removeprefix('trl.')}")
    settings = context.settings.values()
    setting = next(
        (each for each in settings if each.key in names or (each.path and path_text(each.path) in names)), None
    )
    if setting is None:
        return ""
    origin = f"{setting.origin}: {setting.why}" if setting.why else setting.origin
    return f"in {resolution.file}: {json.dumps(setting.value, default=str)} ({origin})"


def nearest_key(word: str) -> str | None:
    """The recipe key most similar to an unknown word."""
    return next(iter(nearest_words(word, recipe_keys(), cutoff=0.8)), None)


def nearest(word: str) -> str | None:
    """The id or key most similar to an unknown word."""
    names = [*known_ids(), *recipe_keys(), *classified_fields(), *shipped_rewards()]
    names += [name for row in topics() for name in row["names"]]
    return next(iter(nearest_words(word, names, cutoff=0.6)), None)


def task_list() -> str:
    """The names of all tasks, and how to see the keys of one."""
    names = tables.task_names()
    listed = textwrap.fill(" ".join(names), _WIDTH, initial_indent="  ", subsequent_indent="  ")
    head = f"dataset.reasoning_gym makes rows of the {len(names)} tasks of reasoning-gym {tables.gym_release()}:"
    return f"{head}\n\n{listed}\n\ngrpo-run explain reasoning_gym.{names[0]} shows the keys of one"


def task_page(task: str) -> str | None:
    """The keys of a task with their types and defaults, None for an unknown task."""
    keys = tables.config_keys(task)
    if keys is None:
        return None
    width = max((len(name) for name in keys), default=0)
    lines = [f"  {name:<{width}}  {json.dumps(key.default)}  ({key.type})" for name, key in keys.items()]
    head = f"reasoning_gym.{task}, a task of reasoning-gym {tables.gym_release()}"
    return "\n".join([head, "", "keys of its config, with their defaults:" if keys else "it has no config", *lines])


_WIDTH = 100
_LONGEST_DEFAULT = 24


def overview() -> str:
    """Sections and keys of the top level with a sentence each, then the ids."""
    keys = [(name, _meaning(name)) for name in Recipe.model_fields]
    families: dict[str, list[str]] = defaultdict(list)
    for rule_id in sorted(known_ids()):
        families[rule_id[:3]].append(rule_id)
    ids = [
        textwrap.fill(" ".join(family), _WIDTH, initial_indent="  ", subsequent_indent="  ")
        for family in families.values()
    ]
    return "\n".join(
        [
            "Sections and keys of a recipe; grpo-run explain training lists the keys of a section:",
            *_rows([(name, _sentence(text)) for name, text in keys]),
            "",
            "Ids of rules, readers, proofs and guards, such as grpo-run explain BAT001:",
            *ids,
            "",
            "Any field of GRPOConfig, such as grpo-run explain trl.vllm_mode",
        ]
    )


def section_keys(section: str) -> str | None:
    """The keys of a section with default and first sentence, None if it is not a section."""
    model = sections().get(section) if section else None
    if model is None:
        return None
    docs = field_docs(model)
    rows = []
    for name, field in fields_by_key(model).items():
        below = f"{section}.{name}" in sections()
        default = "required" if is_required_key(field) else value_text(field.get_default(call_default_factory=True))
        text = "section" if below and default != "[]" else default if len(default) <= _LONGEST_DEFAULT else "..."
        rows.append((name, text, _sentence(docs.get(name) or "")))
    return "\n".join(["keys, with their defaults:", *_rows(rows)])


def _rows(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Words in columns, the last one wrapped if it is too wide."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = []
    for row in rows:
        start = "  " + "".join(f"{cell.ljust(width)}  " for cell, width in zip(row, widths, strict=False))
        lines.append(textwrap.fill(row[-1], _WIDTH, initial_indent=start, subsequent_indent=" " * len(start)) or start)
    return [line.rstrip() for line in lines]


def _sentence(text: str) -> str:
    """The first sentence of a text, on one line."""
    return re.split(r"(?<!e\.g\.)(?<=\.) ", " ".join(text.split()), maxsplit=1)[0]


# Sections whose keys are the fields of another class, by the class.
CLASSES = {"lora": "LoraConfig", "quantization": "BitsAndBytesConfig"}


def key_page(key: str, facts: Facts) -> str:
    """A key's meaning, default, the field that it sets with default and values by release, and its origin."""
    section, _, name = key.rpartition(".")
    model = sections()[section]
    field = fields_by_key(model)[name]
    lines = [key, "", _meaning(key)]
    if is_required_key(field):
        lines.append("default: none, the key is required")
    elif name not in sections():
        lines.append(f"default: {field.get_default(call_default_factory=True)!r} (format 1)")
    classified = fields_by_home().get(key)
    if classified is not None:
        lines += [f"kind: {classified.kind}", *_target_lines(classified.name, facts)]
    elif section in CLASSES and rename.target_key(key) != key:
        lines += [f"passed as: {CLASSES[section]}.{name}", *_history_lines(CLASSES[section], name)]
    lines += _owners(key)
    return "\n".join(lines)


def _target_lines(name: str, facts: Facts) -> list[str]:
    field = (facts.fields("GRPOConfig") or {}).get(name)
    lines = [f"passed as: GRPOConfig.{name}" + ("" if field is None else f": {field.annotation}")]
    if field is not None:
        lines.append(f"{facts.source('GRPOConfig')}: default {json.dumps(field.default)}")
    if field is not None and field.allowed is not None:
        lines[-1] += f", values {', '.join(map(str, field.allowed))}"
    lines += _history_lines("GRPOConfig", name)
    expressed = classified_fields()[name].expressed
    return lines + [f"  {row['because']}" for row in expressed if row.get("because")]


def _history_lines(owner: str, name: str) -> list[str]:
    """The default and values of each span of releases, and the releases without the field."""
    spans = tables.history(owner, name)
    lines = (
        []
        if not spans or not tables.absent_before(spans[0])
        else [f"  {spans[0].package} before {spans[0].first}: no such field"]
    )
    lines += [_span_line(span) for span in spans]
    if spans and tables.absent_after(spans[-1]):
        lines.append(f"  {spans[-1].package} after {spans[-1].last}: no such field")
    return ["by release:", *lines] if lines else []


def _span_line(span: tables.Span) -> str:
    releases = span.first if span.first == span.last else f"{span.first} to {span.last}"
    default = f"default {span.default}" if span.default else "no default"
    values = "" if span.allowed is None else f", values {', '.join(map(str, span.allowed))}"
    return f"  {span.package} {releases}: {default}{values}"


def _owners(key: str) -> list[str]:
    target = rename.target_key(key) or key
    return [f"decided by: {rule.id}, {rule.title}" for rule in rules() if target in rule.owns]


def field_page(name: str, facts: Facts) -> str | None:
    """The page of a GRPOConfig field without its own key, None if the field does not exist."""
    field = classified_fields().get(name)
    if field is None:
        return None
    lines = [f"trl.{name}", "", *([table("field_help")[name]] if name in table("field_help") else [])]
    if field.owner:
        lines.append(f"not set in a recipe: {field.owner}")
    elif field.has_value:
        lines.append(f"default: {field.value!r} (format 1)")
    lines.append(f"kind: {field.kind}")
    if field.when:
        lines.append("matters when: " + " and ".join(f"{n} {o} {v}" for n, o, v in field.when))
    return "\n".join([*lines, *_target_lines(name, facts)])
