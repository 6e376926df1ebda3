"""Texts that YAML or a pattern reads differently than they look get a warning, and other texts get none."""

import pytest

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.yaml.load import load_text

SILENT = [
    "name: run   # two spaces",
    "dataset:\n  path: data.jsonl # the rows",
    "dataset:\n  path: data.jsonl #the rows",
    "training:\n  learning_rate: 1e-6 ## low",
    "lora:  ## small\n  r: 4",
    "description: A first run. # of many",
    "description: A first run # of many",
    "dataset:\n  system_prompt: Think first. # as in the paper",
    'dataset:\n  system_prompt: "Write it after ####" #### here',
    "dataset:\n  prompt: '{{ question }}' # of the row",
    "generation:\n  stop: ['</answer>', \"\\n\\n\"]",
    r"dataset: {columns: {gold: '{{ answer.split(\"\n####\")[-1] }}'}}".replace('\\"', '"'),
    r"dataset: {prompt: 'Show that \(a \neq b\), \nabla f, \text{x} and \tau. {{ question }}'}",
    r"rewards: [{name: regex_match, options: {pattern: '\\boxed\{(\d+)\}\n\s*\bend\b'}}]",
    r'rewards: [{name: regex_match, options: {pattern: "\\d+\\n"}}]',
    r'dataset: {prompt: "a\n\tb"}',
    r"model: {model_name_or_path: C:\new\table}",
]


@pytest.mark.parametrize("text", SILENT)
def test_a_text_that_is_what_it_looks_like_has_no_warning(text: str) -> None:
    assert load_text(f"{text}\n", "recipe.yaml")[1] == []


WARNED = [
    (
        "system_prompt: Write the answer after #### at the end",
        "#### at the end is a comment",
        "system_prompt: 'Write the answer after #### at the end'",
    ),
    ("system_prompt: Use # for headings", "# for headings is a comment", "system_prompt: 'Use # for headings'"),
    ("description: run one #2", "#2 is a comment", "description: 'run one #2'"),
    ("stop: ####", "#### is a comment", "stop: '####'"),
    (r"stop: ['\n\n']", r"\n in single quotes is a backslash and a letter", "double quotes"),
    (r"stop: [\n]", r"\n without quotes is a backslash and a letter", "double quotes"),
    ("prompt: |\n  {{ q }}\\n{{ r }}", r"\n in a block is a backslash and a letter", "double quotes"),
    (r"pattern: '\boxed{(\d+)}'", r"the pattern does not match \boxed", r"pattern: '\\boxed{(\d+)}'"),
    (r"pattern: ^\frac", r"the pattern does not match \frac", r"pattern: '^\\frac'"),
    (r'prompt: "\text{a} {{ q }}"', r"\text in double quotes is not a backslash", r"write \\text"),
    (r'prompt: "when $a \neq b$"', r"\neq in double quotes is not a backslash", r"write \\neq"),
]


@pytest.mark.parametrize(("text", "message", "fix"), WARNED)
def test_a_text_that_is_read_as_something_else_has_a_warning(text: str, message: str, fix: str) -> None:
    (finding,) = load_text(f"{text}\n", "recipe.yaml")[1]
    assert (finding.rule, finding.severity) == ("YML028", "warning")
    assert message in finding.message
    assert fix in str(finding.fix)


def _only(text: str) -> Finding:
    (finding,) = load_text(text, "recipe.yaml")[1]
    return finding


def test_the_fix_writes_line_breaks_outside_of_expressions() -> None:
    finding = _only("prompt: '{{ a.split(\"\\n\") }}\\n\\nThink about \\neq.\\n'\n")
    assert [patch.value for patch in finding.patch] == ['{{ a.split("\\n") }}\n\nThink about \\neq.\n']


def test_a_backslash_in_a_pattern_is_doubled_where_a_command_of_tex_follows() -> None:
    finding = _only('options: {pattern: "\\boxed{(\\\\d+)}\\b"}\n')
    assert finding.fix == "pattern: '\\\\boxed{(\\d+)}\\b'"
    assert [patch.value for patch in finding.patch] == ["\\\\boxed{(\\d+)}\\b"]


def test_a_boundary_in_a_pattern_stays_one() -> None:
    assert [patch.value for patch in _only('options: {pattern: "\\bfoo\\b"}\n').patch] == ["\\bfoo\\b"]


ENVIRONMENT = "launch: {environment: {A: 2, B: 1.10, C: true, D: 0123, E: 1_000, F: 1:30, G: None, H: yes, I: null}}\n"


def test_variables_of_the_environment_are_texts_as_written() -> None:
    document, findings = load_text(ENVIRONMENT, "recipe.yaml")
    assert findings == []
    assert document is not None
    assert document.values["launch"] == {
        "environment": {
            "A": "2",
            "B": "1.10",
            "C": "true",
            "D": "0123",
            "E": "1_000",
            "F": "1:30",
            "G": "None",
            "H": "yes",
            "I": None,
        }
    }
