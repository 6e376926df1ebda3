"""Where values stand: line, column and end column, from the key to the value's end."""

import pytest
import yaml
from support.work import calls

from grpo_recipes.contract.findings.finding import Path
from grpo_recipes.yaml import nodes
from grpo_recipes.yaml.load import load_text

TEXT = """\
# head
name: quick start   # tail
model:   # the policy
  dtype : "bfloat16"  # c
  empty:
lora: {r: 16, targets: [q_proj, 'v_proj']}  # c
rewards:
  - {name: a, weight: 1.0}   # c
  - name: é\U0001f600
    weight: 0.5
  -
prompt: |  # c
  first
  second
folded: one
  two
list:
- 1
-   - 2
    - 3
wide: [
  1, 2 ]
anchored: &x {a: 1}
alias: *x
"""

MARKED: dict[Path, tuple[int, str]] = {
    (): (2, "name: quick start"),
    ("name",): (2, "name: quick start"),
    ("model",): (3, "model:"),
    ("model", "dtype"): (4, 'dtype : "bfloat16"'),
    ("model", "empty"): (5, "empty:"),
    ("lora",): (6, "lora: {r: 16, targets: [q_proj, 'v_proj']}"),
    ("lora", "r"): (6, "r: 16"),
    ("lora", "targets"): (6, "targets: [q_proj, 'v_proj']"),
    ("lora", "targets", 0): (6, "q_proj"),
    ("lora", "targets", 1): (6, "'v_proj'"),
    ("rewards",): (7, "rewards:"),
    ("rewards", 0): (8, "{name: a, weight: 1.0}"),
    ("rewards", 0, "name"): (8, "name: a"),
    ("rewards", 0, "weight"): (8, "weight: 1.0"),
    ("rewards", 1): (9, "name: é\U0001f600"),
    ("rewards", 1, "name"): (9, "name: é\U0001f600"),
    ("rewards", 1, "weight"): (10, "weight: 0.5"),
    ("rewards", 2): (11, "-"),
    ("prompt",): (12, "prompt: |  # c"),
    ("folded",): (15, "folded: one"),
    ("list",): (17, "list:"),
    ("list", 0): (18, "1"),
    ("list", 1): (19, "- 2"),
    ("list", 1, 0): (19, "2"),
    ("list", 1, 1): (20, "3"),
    ("wide",): (21, "wide: ["),
    ("wide", 0): (22, "1"),
    ("wide", 1): (22, "2"),
    ("anchored",): (23, "anchored: &x {a: 1}"),
    ("anchored", "a"): (23, "a: 1"),
    ("alias",): (24, "alias: *x"),
    ("alias", "a"): (23, "a: 1"),
}


@pytest.mark.parametrize("parser", [nodes.LOADER, yaml.SafeLoader], ids=["libyaml", "pure"])
@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_every_value_has_its_place(parser: type, line_break: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "LOADER", parser)
    document, findings = load_text(TEXT.replace("\n", line_break), "r.yaml")
    assert findings == []
    assert document is not None
    lines = TEXT.splitlines()
    marked = {
        path: (mark.line, mark.line_text[mark.column - 1 : mark.end_column - 1])
        for path, mark in document.marks.items()
    }
    assert marked == MARKED
    assert all(mark.line_text == lines[mark.line - 1] for mark in document.marks.values())
    assert {mark.file for mark in document.marks.values()} == {"r.yaml"}


def test_columns_count_characters_from_one() -> None:
    document, _ = load_text("é: {ü: 1, ö: 22}\n", "r.yaml")
    assert document is not None
    mark = document.marks[("é", "ö")]
    assert (mark.line, mark.column, mark.end_column) == (1, 11, 16)
    assert str(mark) == "r.yaml:1:11"


def test_aliases_give_values_of_their_own() -> None:
    document, _ = load_text("a: &a {x: [1]}\nb: *a\n", "r.yaml")
    assert document is not None
    assert document.values == {"a": {"x": [1]}, "b": {"x": [1]}}
    assert document.values["a"] is not document.values["b"]


def test_line_text_cannot_steer_a_terminal() -> None:
    document, _ = load_text("a: 'x\u202ey'\nb: 1\n", "r.yaml")
    assert document is not None
    assert document.values["a"] == "x\u202ey"
    assert document.marks[("a",)].line_text == "a: 'x\ufffdy'"


def test_reading_a_recipe_of_60_lines_makes_few_calls() -> None:
    text = "".join(f"section{n}:\n  number: {n}e-5\n  text: word\n  list: [a, b]\n" for n in range(15))
    load_text(text, "r.yaml")
    made = calls(lambda: load_text(text, "r.yaml"))
    assert made < 9_000 or nodes.LOADER is yaml.SafeLoader, made
