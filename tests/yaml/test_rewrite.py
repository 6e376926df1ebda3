"""A recipe's text with patches in it: what no patch is about stays as it was typed."""

import difflib

import pytest

from grpo_recipes.contract.findings.finding import Patch
from grpo_recipes.resolve.fixes.entries import NotRewritten
from grpo_recipes.resolve.fixes.rewrite import apply_patches
from grpo_recipes.yaml.compose import with_patches
from grpo_recipes.yaml.load import load_text

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
    assert apply_patches(TEXT, []) == TEXT


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
    after = apply_patches(TEXT, [patch])
    assert changed_lines(TEXT, after) == lines
    if lines:
        document = load_text(after, "x.yaml")[0]
        before = load_text(TEXT, "x.yaml")[0]
        assert document is not None
        assert before is not None
        assert document.values == with_patches(before.values, [patch])


def test_items_of_a_list_are_removed_by_the_places_they_had() -> None:
    text = "stop: [a, b, c, d]\n"
    assert apply_patches(text, [Patch(("stop", 0), remove=True), Patch(("stop", 2), remove=True)]) == "stop: [b, d]\n"


def test_line_breaks_of_windows_stay() -> None:
    assert apply_patches("a: 1\r\nb: 2\r\n", [Patch(("a",), 3)]) == "a: 3\r\nb: 2\r\n"


@pytest.mark.parametrize(
    ("text", "patch"),
    [("a: [1\n", Patch(("a",), 1)), ("a: [1]\n", Patch(("a", 3), 1)), ("a: 1\n", Patch(("a", "b"), 1))],
    ids=["not YAML", "an item that is not there", "a key of a number"],
)
def test_what_cannot_be_applied_is_refused(text: str, patch: Patch) -> None:
    with pytest.raises(NotRewritten):
        apply_patches(text, [patch])


def test_a_renamed_key_stays_where_it_is_with_its_value_and_comments() -> None:
    text = (
        "grpo:\n  # why eight\n  num_generation: 8   # eight is plenty\n  beta: 1e-3\n"
        "training: {lr: 2.0e-6, max_steps: 5}   # short\n"
    )
    renamed = [
        *(Patch(("grpo", "num_generation"), remove=True), Patch(("grpo", "num_generations"), 8)),
        *(Patch(("training", "lr"), remove=True), Patch(("training", "learning_rate"), 2e-6)),
    ]
    after = text.replace("num_generation:", "num_generations:").replace("{lr:", "{learning_rate:")
    assert apply_patches(text, renamed) == after


def moved(old: str, new: str, value: object) -> list[Patch]:
    return [Patch(tuple(old.split(".")), remove=True), Patch(tuple(new.split(".")), value)]


MOVES = [
    pytest.param(
        "a: 1\n\n# why\nlr: 1e-5   # slow\n           # and steady\nt:\n    s: null\n    # off: 1\nb: 2\n",
        moved("lr", "t.lr", 1e-5),
        "a: 1\n\nt:\n    s: null\n    # why\n    lr: 1e-5   # slow\n               # and steady\n    # off: 1\nb: 2\n",
        id="a block with comments above, beside and below",
    ),
    pytest.param(
        "# why\nlr: '1'   # slow\nt: {s: null,   # one\n    'u': 2}   # two\n",
        moved("lr", "t.lr", "1"),
        None,
        id="a comment does not go into braces of two lines",
    ),
    pytest.param(
        "x: 1\r\nt: {lr: 1e-5, s: ~}\r\n",
        moved("t.lr", "u.v.lr", 1e-5),
        "x: 1\r\nt: {s: ~}\r\nu:\r\n  v:\r\n    lr: 1e-5\r\n",
        id="out of braces into sections that are not there, with line breaks of Windows",
    ),
    pytest.param(
        "x: 1\nt:  # all\n  lr: &n 1e-5",
        moved("t.lr", "lr", 1e-5),
        "x: 1\nt: {}  # all\nlr: &n 1e-5\n",
        id="the last one",
    ),
    pytest.param(
        "\ufeffx: 1\nt:\n  lr:   # both\n    - 'a'   # first\n    - b\ns:\n",
        moved("t.lr", "s.lr", ["a", "b"]),
        None,
        id="a list with comments does not go into braces",
    ),
    pytest.param(
        "{\n  'a': 1,   # one\n  # why\n  'lr': 2,   # two\n  't': {}\n}\n",
        moved("lr", "t.lr", 2),
        None,
        id="nor in a recipe like JSON",
    ),
    pytest.param(
        "r:\n  name: a   # one\n  weight: 2\nb: 1\n",
        [Patch(("r",), [{"name": "a", "weight": 2}])],
        "r:\n  - name: a   # one\n    weight: 2\nb: 1\n",
        id="a map becomes a list of one",
    ),
    pytest.param(
        "a: &n '16'  # x\nb: *n\n", [Patch(("a",), 16)], None, id="an anchor's value is that of its aliases too"
    ),
    pytest.param("a: &n '16'  # x\n", [Patch(("a",), 16)], "a: &n 16  # x\n", id="an anchor stays"),
    pytest.param("a: 1\nt:  # c\nlr: 1\n", moved("lr", "t.lr", 1), "a: 1\nt: {lr: 1}  # c\n", id="an empty section"),
    pytest.param(
        "a: 1\nlr: 1  # l\nt:  # c\nb: 2\n",
        moved("lr", "t.lr", 1),
        "a: 1\nt:  # c\n  lr: 1  # l\nb: 2\n",
        id="a comment into an empty section",
    ),
    pytest.param(
        "a: 1\nx:\n  # why\n  lr: 1\n  y: 1\nt: {}\n",
        moved("x.lr", "t.u.lr", 1),
        "a: 1\nx:\n  y: 1\nt:\n  u:\n    # why\n    lr: 1\n",
        id="a comment into empty braces",
    ),
    pytest.param(
        "x: 1\nt: {p: 1\n  , lr: 1 # c1\n  , b: 2 # c2\n  }\n",
        [*moved("t.lr", "g.lr", 1), *moved("t.b", "g.b", 2)],
        "x: 1\nt: {p: 1\n  }\ng:\n  lr: 1  # c1\n  b: 2  # c2\n",
        id="out of braces whose commas begin the lines",
    ),
    pytest.param(
        "# file\n# one\na: 1\n# two\nb: 2\nx: 3\n",
        [*moved("a", "g.a", 1), *moved("b", "g.b", 2)],
        "# file\n# one\n\nx: 3\ng:\n  a: 1\n  # two\n  b: 2\n",
        id="two neighbours below what begins the file",
    ),
    pytest.param(
        "g:\n  # why\n  n: false  # Dr. GRPO\n  beta: 1\n",
        moved("g.n", "g.s", "none"),
        "g:\n  # why\n  s: none  # Dr. GRPO\n  beta: 1\n",
        id="another key with another value",
    ),
    pytest.param(
        "t:\n  x: 1\n  n: false  # Dr. GRPO\n",
        moved("t.n", "g.s", "none"),
        "t:\n  x: 1\ng:\n  s: none  # Dr. GRPO\n",
        id="another key with another value elsewhere",
    ),
    pytest.param(
        "a:\n  # why\n  x: 1  # mine\nb: {  # kept\n}\n",
        moved("a.x", "b.y", 1),
        None,
        id="nor into braces that hold a comment alone",
    ),
    pytest.param(
        "a:\n  x: 1  # mine\nb: {\n  # kept\n  }  # too\n",
        moved("a.x", "b.y", 1),
        None,
        id="nor into braces with a comment on its own line",
    ),
    pytest.param(
        "a:\n  x: |\n    u\n    v # no\nb: {  # kept\n}\n",
        moved("a.x", "b.y", "u\nv # no\n"),
        None,
        id="a text of several lines into braces that hold a comment",
    ),
]


@pytest.mark.parametrize(("text", "patches", "after"), MOVES)
def test_what_moves_keeps_its_comments_and_its_notation(text: str, patches: list[Patch], after: str | None) -> None:
    if after is not None:
        assert apply_patches(text, patches) == after
        return
    with pytest.raises(NotRewritten):
        apply_patches(text, patches)


def test_a_comment_does_not_go_to_what_another_finding_sets() -> None:
    text = "g:\n  n: 1\n  a: 2  # mine\n"
    patches = [Patch(("g", "a"), remove=True)], [Patch(("g", "b"), 3)]
    assert apply_patches(text, *patches) == "g:\n  n: 1\n  b: 3\n"
    assert apply_patches(text, [*patches[0], *patches[1]]) == "g:\n  n: 1\n  b: 3  # mine\n"
