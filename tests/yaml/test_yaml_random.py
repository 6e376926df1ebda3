"""Generated texts: JSON is read as JSON, and no text at all makes the reader raise."""

import json
import random

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_recipes.contract.findings.finding import path_text
from grpo_recipes.yaml import nodes
from grpo_recipes.yaml.load import load_text
from grpo_recipes.yaml.merge import read_override

TEXT = st.text(
    st.characters(
        exclude_categories=["Cs"],
        exclude_characters="".join(map(chr, (*range(9), 11, 12, *range(14, 32), *range(127, 160))))
        + "\u2028\u2029\ufeff\ufffe\uffff",
    ),
    max_size=12,
)
KEYS = TEXT.filter(str.isprintable)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=10,
)

RECIPE = """\
# head
name: qwen2-lora
seed: 42
model: &m
  dtype: bfloat16   # tail
  revision: null
lora: {r: 16, lora_alpha: 32, target_modules: [q_proj, "v_proj"]}
dataset:
  prompt: "{{ question }}"
  system: 'it''s \\boxed{}'
  text: |
    first
    second
rewards:
  - {name: accuracy, weight: 1.0}
  - python: rewards.py:f
    weight: 1e-1
more: *m
"""
PIECES = [
    *":-[]{}?!&*#%@`'\"\\|><,~ \t\n\r\0\x1b\ufeff\u2028é",
    "<<",
    "!!",
    "{{",
    "}}",
    "---\n",
    "...",
    "%YAML 1.1\n",
]
PIECES += [
    "010",
    "1_0",
    "1:30",
    "None",
    "\\b",
    "\\d",
    "*m",
    "&m ",
    "\ud83d",
    "\U0001f600",
    "  ",
    "\n\n",
    ": ",
    "- ",
]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.dictionaries(KEYS, VALUES, max_size=5), st.booleans(), st.sampled_from([None, 2]))
def test_json_is_read_as_json(values: dict[str, object], escaped: bool, indent: int | None) -> None:
    # json.dumps writes characters beyond the first plane as two escapes that only JSON joins.
    text = json.dumps(values, ensure_ascii=False, indent=indent)
    if escaped and all(ord(character) < 0x10000 for character in text):
        text = json.dumps(values, indent=indent)
    document, findings = load_text(text, "r.json")
    assert findings == []
    assert document is not None
    assert document.values == values
    assert json.dumps(document.values) == json.dumps(values)


def mutated(text: str, generator: random.Random) -> str:
    for _ in range(generator.randint(1, 4)):
        at = generator.randrange(len(text) + 1)
        end = min(len(text), at + generator.choice([0, 0, 1, 2, 9]))
        text = text[:at] + generator.choice(PIECES) * generator.choice([1, 1, 1, 2, 40]) + text[end:]
    return text


def check(text: str) -> None:
    document, findings = load_text(text, "r.yaml")
    assert document is not None or findings
    for finding in findings:
        assert finding.mark is not None
        assert finding.fix
        assert 1 <= finding.mark.line <= text.count("\n") + text.count("\r") + 1
        assert 1 <= finding.mark.column < finding.mark.end_column <= len(finding.mark.line_text) + 2
        shown = finding.message + "".join(finding.because) + finding.fix + finding.key
        assert shown.isprintable()
        assert len(finding.message) < 250
    for path, mark in document.marks.items() if document else ():
        assert 1 <= mark.column < mark.end_column <= len(mark.line_text) + 2, path_text(path)


def test_mutated_recipes_never_raise() -> None:
    generator = random.Random(7)
    for _ in range(600):
        check(mutated(RECIPE, generator))


def test_mutated_recipes_never_raise_in_the_pure_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "LOADER", yaml.SafeLoader)
    generator = random.Random(8)
    for _ in range(100):
        check(mutated(RECIPE, generator))


def test_mutated_overrides_never_raise() -> None:
    generator = random.Random(9)
    for _ in range(600):
        text = mutated("{a: [1, b], c: 'd'}", generator)
        _, findings = read_override(f"key={text}")
        for finding in findings:
            assert finding.mark is not None
            assert finding.mark.line == 1
