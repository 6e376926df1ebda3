"""No fix harms: random recipes with the slips of a person, mended by --fix and by --fix=suggested.

10,000 recipes (`--fuzz full`), 300 otherwise. A failure shows the seed and the number of its recipe, which make it
again.
"""

import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from mistakes import mistaken
from support.releases import pinned
from valid_recipes import valid_recipe

from grpo_recipes.compare.differences import differences
from grpo_recipes.resolve.fixes.fixes import Fixes, fixes
from grpo_recipes.resolve.resolve import Resolution, plan_of, resolve
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.stack.stack import Stack
from grpo_recipes.stack.target import parse_target
from grpo_recipes.yaml.load import load_text

pytestmark = pytest.mark.fuzz

STACK = (
    f"{pinned('python trl transformers peft accelerate datasets torch')},"
    "bitsandbytes==0.50.2,deepspeed==0.19.8,math-verify==0.9.0"
)
# What one of them says without a value is nothing.
SECTIONS = set(Recipe.model_fields) - {"name", "recipe", "seed"}
WORDS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false", "none": "null"}


def _again(file: str, stack: Stack, content: str) -> Resolution:
    return resolve(file, stack, (), content)


def _said(value: object) -> str:
    """A value as it is compared: the same for each notation of it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = str(value).lower().replace("-", "").replace("_", "").replace(" ", "").replace(",", "")
    try:
        return f"{float(str(value).replace(',', '')):.12g}"
    except ValueError:
        return WORDS.get(text, text)


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict):  # an empty section says nothing
        for one in value.values():
            yield from _leaves(one)
    elif isinstance(value, list) and value:
        for one in value:
            yield from _leaves(one)
    else:
        yield _said(value)


def _values(text: str) -> dict[str, Any]:
    document, _ = load_text(text, "r.yaml")
    assert document is not None
    return {key: value for key, value in document.values.items() if value is not None or key not in SECTIONS}


def _errors(resolution: Resolution) -> int:
    return sum(finding.severity == "error" for finding in resolution.findings)


def _check(text: str, before: Resolution, made: Fixes, *, asked: bool) -> None:
    assert _errors(made.after) <= _errors(before)
    told = {(finding.rule, finding.key) for finding in (*made.fixed, *made.suggested, *made.left)}
    left = {(one.rule, one.key) for one in made.after.findings if one.severity in ("error", "warning")}
    assert left <= {(one.rule, one.key) for one in (*made.suggested, *made.left)}
    assert told >= left & {(one.rule, one.key) for one in before.findings}
    if asked:
        return
    lost = Counter(_leaves(_values(text))) - Counter(_leaves(_values(made.text)))
    invented = Counter(_leaves(_values(made.text))) - Counter(_leaves(_values(text)))
    assert not lost and not invented, (lost, invented)
    if not before.refused and not made.after.refused:
        assert differences(plan_of(before), plan_of(made.after)).experiment == ()


@pytest.mark.parametrize("asked", [False, True], ids=["certain", "suggested"])
def test_a_fix_loses_nothing_and_makes_no_recipe_worse(asked: bool, tmp_path: Path, seed: int, is_full: bool) -> None:
    count = Counter[str]()
    file = tmp_path / "r.yaml"
    for number in range(10_000 if is_full else 300):
        draw = random.Random(f"fixes {seed} {number}")
        recipe, gpus = valid_recipe(draw)
        text = yaml.safe_dump(mistaken(recipe, draw), sort_keys=False, default_flow_style=draw.choice([None, False]))
        stack, _ = parse_target(f"{STACK},gpus={gpus}")
        file.write_text(text)
        before = resolve(str(file), stack)
        made = fixes(before, text, partial(_again, str(file), stack), asked=lambda _: asked)
        try:
            _check(text, before, made, asked=asked)
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}, recipe {number}: {failure}\n{text}\n{made.text}") from failure
        count["recipes with errors before"] += _errors(before) > 0
        count["recipes with errors after"] += _errors(made.after) > 0
        count["fixed"] += len(made.fixed)
        count["suggested"] += len(made.suggested)
        count["left"] += len(made.left)
    print(f"{'suggested' if asked else 'certain'}: {dict(count)}")
    assert count["fixed"] > 0 and count["recipes with errors after"] < count["recipes with errors before"]
