"""The values of --set: as strict as a file's, one line, flow style."""

import pytest

from grpo_recipes.yaml import ids
from grpo_recipes.yaml.merge import read_override

READ = [
    ("0.5", 0.5),
    ("1e-5", 1e-5),
    ("auto", "auto"),
    ("no", "no"),
    ("", None),
    ("null", None),
    ("true", True),
    ("[a, 1, {b: c}]", ["a", 1, {"b": "c"}]),
    ("{a: 1}", {"a": 1}),
    ("hello, world", "hello, world"),
    ('"a\\nb"', "a\nb"),
    ("rewards.py:brevity", "rewards.py:brevity"),
    ("a=b", "a=b"),
    ("é", "é"),
    ("{{ x }}", "{{ x }}"),
    ("{% if x %}{{ x }}{% endif %}", "{% if x %}{{ x }}{% endif %}"),
    ("{{ a == 'ok' and b != \"é\" }} ", "{{ a == 'ok' and b != \"é\" }}"),
]
REFUSED = [
    ("010", ids.NUMBER_SPELLING),
    ("None", ids.PYTHON_NONE),
    ("@x", ids.SYNTAX),
    ("*x", ids.ALIAS),
    ("&a [*a]", ids.ALIAS),
    ("!x y", ids.TAG),
    ("{a: 1, a: 2}", ids.DUPLICATE_KEY),
    ("[1", ids.SYNTAX),
    ("a: b", ids.OVERRIDE_SYNTAX),
    ("- a", ids.OVERRIDE_SYNTAX),
    ("foo #bar", ids.OVERRIDE_SYNTAX),
    ("#bar", ids.OVERRIDE_SYNTAX),
    ("a\nb", ids.OVERRIDE_SYNTAX),
    ("a\udce9", ids.NOT_TEXT),
    ("\x1b", ids.NOT_TEXT),
    ("[" * 200_000, ids.TOO_DEEP),
    ("[{{ x }}]", ids.UNQUOTED_TEMPLATE),
]


@pytest.mark.parametrize(("text", "value"), READ, ids=[text for text, _ in READ])
def test_value_is_read(text: str, value: object) -> None:
    override, findings = read_override(f"key={text}")
    assert findings == []
    assert override is not None
    assert override.value.value == value


@pytest.mark.parametrize(("text", "rule"), REFUSED, ids=[ascii(text[:20]) for text, _ in REFUSED])
def test_value_is_refused_with_one_finding(text: str, rule: str) -> None:
    _, findings = read_override(f"key={text}")
    assert [finding.rule for finding in findings] == [rule]
    assert findings[0].mark is not None
    assert (findings[0].mark.file, findings[0].mark.line) == ("--set", 1)
    assert findings[0].mark.line_text.isprintable() or "\ufffd" in findings[0].mark.line_text
    assert findings[0].fix
