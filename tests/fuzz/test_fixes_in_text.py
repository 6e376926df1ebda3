"""No fix changes more of a file than its finding is about: recipes typed by hand, with slips, through --fix --write.

2,000 recipes (`--fuzz full`), 300 otherwise, 60 in `make test-all`. Each value and each comment is there once, under a
mark of its own, so that what is lost, doubled or changed can be told without a second reader of YAML.
"""

import contextlib
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mistyped import SECTIONS, mistyped_recipe
from support.releases import pinned

from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.stack.target import parse_target
from grpo_recipes.yaml.load import load_text

TARGET = f"{pinned('trl transformers peft accelerate datasets torch')},gpus=1xH100"


def _leaves(value: object) -> list[object]:
    if isinstance(value, dict):
        return [leaf for one in value.values() for leaf in _leaves(one)]
    if isinstance(value, list):
        return [leaf for one in value for leaf in _leaves(one)]
    return [value]


def _said(text: str) -> Counter[str]:
    """The values of a file, each as the number or the word that it is in every notation of a certain fix."""
    document, _ = load_text(text.removeprefix("\ufeff"), "r.yaml")
    assert document is not None, "the file can no longer be read"
    words = Counter[str]()
    for leaf in _leaves({key: one for key, one in document.values.items() if one is not None or key not in SECTIONS}):
        word = str(leaf).lower().replace("yes", "true").replace("-", "_")
        if re.fullmatch(r"[1-9][0-9]{0,2}(,[0-9]{3})+", word):
            word = word.replace(",", "")
        with contextlib.suppress(ValueError):
            word = f"{float(str(leaf)):.12g}"
        words[f"{float(word):.12g}" if re.fullmatch(r"[0-9]+", word) else word] += 1
    return words


def _check(before: str, after: str, touched: set[str]) -> None:
    said = _said(before)
    assert said == _said(after), (said - _said(after), _said(after) - said)
    assert Counter(re.findall(r"# c\d+", before)) == Counter(re.findall(r"# c\d+", after)), "comments"
    old, new = Counter(before.splitlines(keepends=True)), Counter(after.splitlines(keepends=True))
    for line in old - new:
        if not line.strip() or line.lstrip().startswith("#") or not line.endswith("\n"):
            continue  # it is counted above, and goes with its key into another column; a last line gets its end
        assert any(key in line for key in touched), f"changed without a finding: {line!r}"
    assert ("\r\n" in before) == ("\r\n" in after) and after.startswith("\ufeff") == before.startswith("\ufeff")


def _try(count: int, seed: int, grpo_run: Callable[..., Any], folder: Path) -> None:
    file, counted, (stack, _) = folder / "r.yaml", Counter[str](), parse_target(TARGET)
    assert stack is not None
    for number in range(count):
        draw = random.Random(f"text {seed} {number}")
        text, touched = mistyped_recipe(draw)
        file.write_bytes(text.encode())
        errors = sum(one.severity == "error" for one in resolve(str(file), stack).findings)
        answer = grpo_run("validate", str(file), "--fix", "--write", "--target", TARGET)
        after = file.read_bytes().decode()
        left = sum(one.severity == "error" for one in resolve(str(file), stack).findings)
        try:
            _check(text, after, touched)
            assert left <= errors, f"{errors} errors became {left}"
            assert errors or after == text
        except AssertionError as failure:
            place = f"seed {seed}, recipe {number}: {failure}"
            raise AssertionError(f"{place}\n{text}\n-----\n{after}\n{answer.err}") from None
        counted.update(errors=errors, left=left, written=after != text)
    print(dict(counted))
    assert counted["written"] > count / 2
    assert counted["left"] < counted["errors"] / 2


def test_a_certain_fix_touches_what_it_is_about(grpo_run: Callable[..., Any], tmp_path: Path) -> None:
    _try(60, 0, grpo_run, tmp_path)


@pytest.mark.fuzz
def test_certain_fixes_of_many_recipes(grpo_run: Callable[..., Any], tmp_path: Path, seed: int, is_full: bool) -> None:
    _try(2000 if is_full else 300, seed + 1, grpo_run, tmp_path)
