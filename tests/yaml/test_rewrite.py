"""A recipe's text with patches in it: what no patch is about stays as it was typed."""

import difflib

import pytest

from grpo_recipes.contract.findings.finding import Patch
from grpo_recipes.yaml.load import load_text
from grpo_recipes.yaml.patch import patched
from grpo_recipes.yaml.rewrite import NotRewritten, rewritten

TEXT = """\
# Who reads this: the team.
recipe:   1        # the format
name: 'a b'
grpo:
    num_generations: 8   # four spaces, and a remark

    beta: 0.0
rewards:
- name: exact_match
-   name: accuracy
    weight: 0.5
lora: {r: 16,   lora_alpha: 32}
"""


def changed_lines(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]


def test_without_a_patch_not_a_byte_changes() -> None:
    assert rewritten(TEXT, []) == TEXT


@pytest.mark.parametrize(
    ("patch", "lines"),
    [
        (Patch(("grpo", "beta"), 0.04), ["-    beta: 0.0", "+    beta: 0.04"]),
        (Patch(("grpo", "loss_type"), "dapo"), ["+    loss_type: dapo"]),
        (Patch(("grpo", "beta"), remove=True), ["-    beta: 0.0"]),
        (Patch(("rewards", 0), remove=True), ["-- name: exact_match"]),
        (Patch(("rewards", 1, "weight"), 1), ["-    weight: 0.5", "+    weight: 1"]),
        (Patch(("quantization",), {"load_in_4bit": True}), ["+quantization: {load_in_4bit: true}"]),
        (Patch(("trl", "x"), remove=True), []),
        (Patch(("name",), "no"), ["-name: 'a b'", '+name: "no"']),
        (Patch(("name",), "1e-6"), ["-name: 'a b'", '+name: "1e-6"']),
        (Patch(("name",), "# x"), ["-name: 'a b'", "+name: '# x'"]),
    ],
    ids=lambda each: repr(each)[:40],
)
def test_a_patch_changes_its_lines_alone(patch: Patch, lines: list[str]) -> None:
    after = rewritten(TEXT, [patch])
    assert changed_lines(TEXT, after) == lines
    if lines:
        document = load_text(after, "x.yaml")[0]
        before = load_text(TEXT, "x.yaml")[0]
        assert document is not None
        assert before is not None
        assert document.values == patched(before.values, [patch])


def test_items_of_a_list_are_removed_by_the_places_they_had() -> None:
    text = "stop: [a, b, c, d]\n"
    assert rewritten(text, [Patch(("stop", 0), remove=True), Patch(("stop", 2), remove=True)]) == "stop: [b, d]\n"


def test_line_breaks_of_windows_stay() -> None:
    assert rewritten("a: 1\r\nb: 2\r\n", [Patch(("a",), 3)]) == "a: 3\r\nb: 2\r\n"


@pytest.mark.parametrize(
    ("text", "patch"),
    [("a: [1\n", Patch(("a",), 1)), ("a: [1]\n", Patch(("a", 3), 1)), ("a: 1\n", Patch(("a", "b"), 1))],
    ids=["not YAML", "an item that is not there", "a key of a number"],
)
def test_what_cannot_be_applied_is_refused(text: str, patch: Patch) -> None:
    with pytest.raises(NotRewritten):
        rewritten(text, [patch])


def test_a_renamed_key_stays_where_it_is_with_its_value_and_comments() -> None:
    text = (
        "grpo:\n  # why eight\n  num_generation: 8   # eight is plenty\n  beta: 1e-3\n"
        "training: {lr: 2.0e-6, max_steps: 5}   # short\n"
    )
    renamed = [
        *(Patch(("grpo", "num_generation"), remove=True), Patch(("grpo", "num_generations"), 8)),
        *(Patch(("training", "lr"), remove=True), Patch(("training", "learning_rate"), 2e-6)),
    ]
    after = text.replace("num_generation: 8 ", "num_generations: 8").replace("{lr:", "{learning_rate:")
    assert rewritten(text, renamed).replace("}  #", "}   #").replace("} #", "}   #") == after
