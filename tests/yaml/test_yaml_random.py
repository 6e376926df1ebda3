"""Generated texts: JSON is read as JSON, and no text at all makes the reader raise."""

import json
import random

import pytest
import yaml

from grpo_recipes.contract.findings.finding import path_text
from grpo_recipes.yaml import nodes
from grpo_recipes.yaml.load import load_text
from grpo_recipes.yaml.merge import read_override

# What JSON or YAML give a meaning, and characters of each length; no surrogates, and none that YAML refuses.
CHARACTERS = [
    *" \t\n\r\\\"'#:,-?&*!|>%@`{}[]<=~/._0123456789abcdefnotruyNOT",
    *"\xa0\xad\xe9\u0300\u2003\u6f22",
]
CHARACTERS += [*"\ue000\ufdd0\ufffd\U0001f600\U000e0001\U0010fffd"]
INVISIBLE = "YML020"  # a warning
WORDS = [
    "",
    "null",
    "true",
    "yes",
    "off",
    "~",
    "1e-6",
    "1_000",
    "0x1f",
    "0o7",
    "1:30",
    "2026-01-01",
    ".inf",
    "<<",
    "---",
]
NUMBERS = [0, 1, -1, 2**63 - 1, -(2**63), 0.0, -0.0, 0.5, 1e-6, 1e16, 1e22, 1e300, 5e-324, 1.7976931348623157e308]


def text_of(draw: random.Random) -> str:
    if draw.random() < 0.2:
        return draw.choice(WORDS)
    any_of_them = chr(draw.choice([draw.randint(0xA0, 0xD7FF), draw.randint(0xE000, 0x10FFFF)]))
    known = draw.choices(CHARACTERS, k=draw.randint(0, 12))
    return "".join(known) + any_of_them.translate(dict.fromkeys((0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF)))


def key_of(draw: random.Random) -> str:
    return "".join(filter(str.isprintable, text_of(draw)))


def value_of(draw: random.Random, depth: int = 0) -> object:
    kind = draw.randrange(6 if depth > 3 else 8)
    if kind == 7:
        return {key_of(draw): value_of(draw, depth + 1) for _ in range(draw.randint(0, 4))}
    if kind == 6:
        return [value_of(draw, depth + 1) for _ in range(draw.randint(0, 4))]
    numbers = [draw.choice(NUMBERS), draw.randint(-(2**63), 2**63 - 1), draw.gauss(0, 10.0 ** draw.randint(-300, 300))]
    return [None, draw.random() < 0.5, draw.choice(numbers), draw.choice(numbers), text_of(draw), text_of(draw)][kind]


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


def test_json_is_read_as_json() -> None:
    for seed in range(200):
        draw = random.Random(seed)
        values = {key_of(draw): value_of(draw) for _ in range(draw.randint(0, 5))}
        indent = draw.choice([None, 2])
        # json.dumps writes characters beyond the first plane as two escapes that only JSON joins.
        text = json.dumps(values, ensure_ascii=False, indent=indent)
        if draw.random() < 0.5 and all(ord(character) < 0x10000 for character in text):
            text = json.dumps(values, indent=indent)
        document, findings = load_text(text, "r.json")
        assert [one for one in findings if one.rule != INVISIBLE] == [], (seed, text)
        assert document is not None
        assert document.values == values, (seed, text)
        assert json.dumps(document.values) == json.dumps(values), (seed, text)


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
