"""What plain scalars mean, and which are refused with the value that was meant."""

import math

import pytest

from grpo_recipes.yaml import ids
from grpo_recipes.yaml.load import load_text

READ: list[tuple[str, object]] = [
    ("1e-5", 1e-5),
    ("5E-6", 5e-6),
    ("-1e-3", -1e-3),
    ("1E5", 1e5),
    ("1.0e5", 1e5),
    ("1e+5", 1e5),
    (".5", 0.5),
    ("-.5", -0.5),
    ("5.", 5.0),
    ("1024.0", 1024.0),
    ("0.10", 0.1),
    ("0", 0),
    ("-0", 0),
    ("42", 42),
    ("+1", 1),
    ("-17", -17),
    ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -(2**63)),
    (".inf", math.inf),
    ("-.Inf", -math.inf),
    ("null", None),
    ("~", None),
    ("", None),
    ("true", True),
    ("True", True),
    ("FALSE", False),
    ("none", "none"),
    ("inf", "inf"),
    ("nan", "nan"),
    ("tRue", "tRue"),
    ("1,024", "1,024"),
    ("2025-01-01", "2025-01-01"),
    ("2025-01-01 10:00:00", "2025-01-01 10:00:00"),
    ("1.2.3", "1.2.3"),
    ("08:30", "08:30"),
    ("1:75", "1:75"),
    ("8000:8000", "8000:8000"),
    ("127.0.0.1:8000", "127.0.0.1:8000"),
    ("0xyz", "0xyz"),
    ("0b12", "0b12"),
    ("0o9", "0o9"),
    ("_1", "_1"),
    ("1e", "1e"),
    ("e5", "e5"),
    ("-", None),
    (".", "."),
    ("+", "+"),
    ("q_proj,v_proj", "q_proj,v_proj"),
    ("all-linear", "all-linear"),
    ("<|im_end|>", "<|im_end|>"),
    ("rewards.py:brevity", "rewards.py:brevity"),
    ('"010"', "010"),
    ("'1_024'", "1_024"),
    ('"1:30:00"', "1:30:00"),
    ('"None"', "None"),
    ('"False"', "False"),
    ("'0x1F'", "0x1F"),
    ('"null"', "null"),
    ('"a\\tb\\nc"', "a\tb\nc"),
    (r"'\boxed{}'", r"\boxed{}"),
    ('"\\\\boxed{}"', r"\boxed{}"),
    (r"'</answer>\n'", r"</answer>\n"),
    ("[INST]", ["INST"]),
    ("{}", {}),
]

REFUSED = [
    ("010", ids.NUMBER_SPELLING, 10, "key: 10"),
    ("08", ids.NUMBER_SPELLING, 8, "key: 8"),
    ("-007", ids.NUMBER_SPELLING, -7, "key: -7"),
    ("0o10", ids.NUMBER_SPELLING, 8, "key: 8"),
    ("0x1F", ids.NUMBER_SPELLING, 31, "key: 31"),
    ("-0x1f", ids.NUMBER_SPELLING, -31, "key: -31"),
    ("0b101", ids.NUMBER_SPELLING, 5, "key: 5"),
    ("1_024", ids.NUMBER_SPELLING, 1024, "key: 1024"),
    ("1_000.5", ids.NUMBER_SPELLING, 1000.5, "key: 1000.5"),
    ("0_7", ids.NUMBER_SPELLING, 7, "key: 7"),
    ("1:30:00", ids.BASE_SIXTY, "1:30:00", 'key: "1:30:00"'),
    ("12:30", ids.BASE_SIXTY, "12:30", 'key: "12:30"'),
    ("1:30.5", ids.BASE_SIXTY, "1:30.5", 'key: "1:30.5"'),
    ("None", ids.PYTHON_NONE, None, "key: null"),
    ("9223372036854775808", ids.NUMBER_TOO_LARGE, "9223372036854775808", 'key: "9223372036854775808"'),
    ("1e999", ids.NUMBER_TOO_LARGE, "1e999", 'key: "1e999"'),
    ("1e-400", ids.NUMBER_TOO_LARGE, "1e-400", 'key: "1e-400"'),
    ("-0.01e-999", ids.NUMBER_TOO_LARGE, "-0.01e-999", 'key: "-0.01e-999"'),
    (r'"\boxed{}"', ids.CONTROL_CHARACTER, r"\boxed{}", r"key: '\boxed{}'"),
    (r'"\frac{1}{2}"', ids.CONTROL_CHARACTER, r"\frac{1}{2}", r"key: '\frac{1}{2}'"),
    (r'"\alpha it' + "'" + 's"', ids.CONTROL_CHARACTER, r"\alpha it's", r"key: '\alpha it''s'"),
    (r'"\vec"', ids.CONTROL_CHARACTER, r"\vec", r"key: '\vec'"),
    (r'"\eta"', ids.CONTROL_CHARACTER, r"\eta", r"key: '\eta'"),
    (r'"\0"', ids.CONTROL_CHARACTER, r"\0", r"key: '\0'"),
    (r'"\Lambda \Phi"', ids.CONTROL_CHARACTER, r"\Lambda \Phi", r"key: '\Lambda \Phi'"),
    (r'"\"\\frac\" \boxed"', ids.CONTROL_CHARACTER, r'"\frac" \boxed', r'key: "\"\\frac\" \\boxed"'),
]


@pytest.mark.parametrize(("text", "value"), READ, ids=[text for text, _ in READ])
def test_scalar_is_read_as_yaml_1_2_says(text: str, value: object) -> None:
    document, findings = load_text(f"key: {text}\n" if text != "-" else "key:\n", "recipe.yaml")
    assert findings == []
    assert document is not None
    assert document.values == {"key": value}
    assert type(document.values["key"]) is type(value)


def test_nan_is_a_float() -> None:
    document, findings = load_text("key: .nan\n", "recipe.yaml")
    assert findings == []
    assert document is not None
    value = document.values["key"]
    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize(("text", "rule", "value", "fix"), REFUSED, ids=[case[0] for case in REFUSED])
def test_scalar_that_readers_disagree_about_is_refused(text: str, rule: str, value: object, fix: str) -> None:
    document, findings = load_text(f"key: {text}\n", "recipe.yaml")
    assert [finding.rule for finding in findings] == [rule]
    finding = findings[0]
    assert (finding.severity, finding.key, finding.fix) == ("error", "key", fix)
    assert finding.because
    assert finding.mark is not None
    assert (finding.mark.line, finding.mark.column, finding.mark.end_column) == (1, 6, 6 + len(text))
    assert [(patch.path, patch.value) for patch in finding.patch] == [(("key",), value)]
    assert document is not None
    assert document.values == {"key": value}
    assert type(document.values["key"]) is type(value)


@pytest.mark.parametrize(("text", "rule", "value", "fix"), REFUSED, ids=[case[0] for case in REFUSED])
def test_the_fix_of_a_refused_scalar_is_silent(text: str, rule: str, value: object, fix: str) -> None:
    document, findings = load_text(fix, "recipe.yaml")
    assert findings == []
    assert document is not None
    assert document.values == {"key": value}


@pytest.mark.parametrize("text", [r'"\frac\n"', r'"\u0007"', r'"\bar \theta"'])
def test_control_character_among_other_escapes_has_no_patch(text: str) -> None:
    _, findings = load_text(f"key: {text}", "recipe.yaml")
    assert [finding.rule for finding in findings] == [ids.CONTROL_CHARACTER]
    assert findings[0].patch == ()


def test_words_are_kept_as_text_and_listed() -> None:
    text = 'a: no\nb: "no"\nc: {d: Yes, e: maybe}\nf: [on, OFF, y, N, nope]\nenable_thinking: true\n'
    document, findings = load_text(text, "recipe.yaml")
    assert findings == []
    assert document is not None
    assert document.values["a"] == "no"
    assert document.values["f"] == ["on", "OFF", "y", "N", "nope"]
    assert document.words == {("a",), ("c", "d"), ("f", 0), ("f", 1), ("f", 2), ("f", 3)}


def test_word_keys_are_text() -> None:
    document, findings = load_text("on: 1\nn: 2\n", "recipe.yaml")
    assert findings == []
    assert document is not None
    assert document.values == {"on": 1, "n": 2}
    assert document.words == frozenset()
