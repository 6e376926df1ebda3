"""Resolves the recipe of a plan again on the present stack."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files.regular_file import read_text
from grpo_recipes.contract.plan import Data, Evaluation, Plan, PlannedSetting
from grpo_recipes.lock.pinned import complete_plan, values_to_verify
from grpo_recipes.lock.read_lock import Lock, Places
from grpo_recipes.resolve.resolve import Resolution, resolve_source
from grpo_recipes.resolve.variants.merged_recipe import merged_recipe_text
from grpo_recipes.stack.stack import Stack
from grpo_recipes.yaml.compose import Source
from grpo_recipes.yaml.load import load_text
from grpo_recipes.yaml.merge import Tree, apply_override, read_override
from grpo_recipes.yaml.nodes import MAX_VALUES

LONGEST_HEAD = 65536
"""Bytes of the comment on top of recipe.yaml, which names the files it was merged from."""


def resolve_again(lock: Lock, places: Places, stack: Stack, overrides: Sequence[str]) -> Resolution:
    """The resolution of the plan's recipe with the present paths. Nothing else in the plan is trusted.

    Raises Refusal for a plan without a readable recipe.
    """
    if _more_than(places.values, MAX_VALUES):
        raise Refusal.of(
            f"{lock.path} has no recipe that can be read",
            because=f"it has more than {MAX_VALUES:,} values, more than any recipe may have",
            fix="restore the plan from a copy",
        )
    text = merged_recipe_text(Source(lock.path, (lock.path,), places.values, {}, frozenset()))
    file = _file_to_name(lock, text)
    document, findings = load_text(text, file)
    if document is None:
        raise Refusal.of(f"{lock.path} has no recipe that can be read", because=findings[0].message)
    tree = Tree(document.values, document.marks, set(document.words), [])
    for text in overrides:
        override, problems = read_override(text)
        refused = apply_override(tree, override) if override is not None else None
        findings += [*problems, *([refused] if refused is not None else [])]
    source = Source(file, (file,), tree.values, tree.marks, frozenset(tree.words))
    return resolve_source(source, stack, findings)


def _more_than(values: object, most: int) -> bool:
    """Whether maps and lists hold more than `most` values; stops counting there."""
    waiting, count = [values], 0
    while waiting and count <= most:
        value = waiting.pop()
        inside = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        count += len(inside)
        waiting += inside
    return count > most


def _file_to_name(lock: Lock, text: str) -> str:
    """The file to name in findings: the run folder's recipe.yaml if it has the same content, else plan.json."""
    file = os.path.join(lock.folder, "recipe.yaml")
    try:
        written = read_text(file, len(text.encode()) + LONGEST_HEAD)
    except (OSError, ValueError):
        return lock.path
    return file if written.partition("\n")[2] == text.partition("\n")[2] else lock.path


def same_but_now(lock: Lock, plan: Plan, *, is_changed: bool, accept_drift: bool) -> Plan:
    """The new plan with values carried over from the old one: commits, origins, recipe paths, and values to verify.

    is_changed: there were overrides.
    """
    old = lock.plan
    pinned = complete_plan(_pin(plan, lock), is_pinned=True)
    known = values_to_verify(pinned)
    return replace(
        pinned,
        recipe=pinned.recipe if is_changed else old.recipe,
        settings=_with_origins(pinned.settings, old.settings),
        recipe_file=old.recipe_file,
        verified={**known, **_values_of_before(lock, pinned, known if accept_drift else {})},
        accept_drift=accept_drift,
        extends=old.extends,
    )


def _values_of_before(lock: Lock, plan: Plan, left_out: Mapping[str, object]) -> dict[str, object]:
    """The values that the worker found and must find again; for held-out rows, which may change, only if they are the
    same.

    left_out: keys that the new plan knows by itself.
    """
    old, new = ({s.section: _rows_of(s.data) for s in _sets(each_plan)} for each_plan in (lock.plan, plan))
    others = tuple(f"{section}." for section in old if old[section] != new.get(section))
    made = lock.plan.data.made != plan.data.made  # an extended run has more episodes
    return {
        key: value
        for key, value in lock.verified.items()
        if key not in left_out and not key.startswith(others) and not (made and key.startswith("dataset."))
    }


def _sets(plan: Plan) -> tuple[Evaluation, ...]:
    return () if plan.evaluation is None else plan.evaluation.sets


def _rows_of(data: Data) -> tuple[str | None, ...]:
    """The values that identify rows, wherever they are."""
    path = data.path if data.source == "hub" else None
    return (data.sha256, data.commit, data.name, data.split, data.revision, path)


def _pin(plan: Plan, lock: Lock) -> Plan:
    """The plan with the commits of the old one, if model and data are the same."""
    old, loaded = lock.plan, lock.verified.get("model.commit")
    model, evaluation = plan.model, plan.evaluation
    if model.source == "hub" and (model.path, model.revision) == (old.model.path, old.model.revision):
        model = replace(model, commit=_commit(old.model.commit) or _commit(loaded))
    if evaluation is not None and old.evaluation is not None:
        held_out = {part.name: part.data for part in old.evaluation.sets}
        evaluation = evaluation.with_data(
            lambda part: _pin_data(part.data, held_out[part.name]) if part.name in held_out else part.data
        )
    known = {data.source_name: data for data in old.sources}
    sources = tuple(_pin_data(data, known.get(data.source_name, data)) for data in plan.sources)
    data = sources[0] if sources else _pin_data(plan.data, old.data)
    return replace(plan, model=model, data=data, sources=sources, evaluation=evaluation)


def _pin_data(data: Data, old: Data) -> Data:
    is_same = data.source == "hub" and (data.path, data.revision) == (old.path, old.revision)
    return replace(data, commit=_commit(old.commit)) if is_same else data


def _commit(value: object) -> str | None:
    """A valid hub commit, None for anything else, since it is used in command lines and paths."""
    return value if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{40}", value) else None


def _with_origins(new: Sequence[PlannedSetting], old: Sequence[PlannedSetting]) -> tuple[PlannedSetting, ...]:
    """The settings with the old ones' origins if the value is the same: the recipe, not its copy in a plan."""
    known = {row.key: row for row in old}
    places = {"model.from_run", "model.model_name_or_path", "dataset.path", "datasets", "evaluation.path"}
    places |= {row.key for row in new if row.key.startswith("evaluation.sets.") and row.key.endswith(".path")}
    places |= {
        "tokenizer.chat_template_path",
        "rewards",
        "tools",
        "environment.python",
        "environments",
        "rollout.python",
    }
    return tuple(
        known[row.key] if row.key in known and (known[row.key].value == row.value or row.key in places) else row
        for row in new
    )
