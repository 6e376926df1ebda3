"""Lists that a child adds to: `stop: {extend: [...]}`."""

from pathlib import Path

import pytest

from grpo_recipes.contract.findings.finding import Patch
from grpo_recipes.resolve.fixes.entries import NotRewritten
from grpo_recipes.resolve.fixes.rewrite import apply_patches
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.compose import Source, compose

BASE = "rewards:\n- {name: a}\ngeneration: {stop: [yes]}\n"


def composed(folder: Path, child: str, *overrides: str, base: str = BASE) -> Source:
    (folder / "base.yaml").write_text(base)
    (folder / "r.yaml").write_text(f"extends: base\n{child}")
    source, findings = compose(str(folder / "r.yaml"), overrides)
    assert findings == []
    assert source is not None
    return source


def test_a_list_is_still_replaced_by_a_list(tmp_path: Path) -> None:
    assert composed(tmp_path, "rewards: [{name: b}]\n").values["rewards"] == [{"name": "b"}]


def test_items_are_added_after_those_of_the_parent(tmp_path: Path) -> None:
    source = composed(tmp_path, "rewards:\n  extend:\n  - {name: b, weight: 0.5}\ngeneration: {stop: {extend: [no]}}\n")
    assert source.values == {
        "rewards": [{"name": "a"}, {"name": "b", "weight": 0.5}],
        "generation": {"stop": ["yes", "no"]},
    }


def test_each_item_keeps_the_place_and_the_words_of_the_file_that_wrote_it(tmp_path: Path) -> None:
    source = composed(tmp_path, "rewards: {extend: [{name: on}]}\ngeneration: {stop: {extend: [off]}}\n")
    places = {path: str(mark).removeprefix(f"{tmp_path}/") for path, mark in source.marks.items()}
    assert places[("rewards", 0, "name")] == "base.yaml:2:4"
    assert places[("rewards", 1)] == "r.yaml:2:20"
    assert places[("rewards", 1, "name")] == "r.yaml:2:21"
    assert not any("extend" in path for path in places)
    assert source.words == {("rewards", 1, "name"), ("generation", "stop", 0), ("generation", "stop", 1)}


def test_a_chain_of_files_and_overrides_extends_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "top.yaml").write_text("extends: r\ns: {extend: [3]}\n")
    composed(tmp_path, "s: {extend: [2]}\n", base="s: [1]\n")
    source, findings = compose(str(tmp_path / "top.yaml"), ["s={extend: [4]}", "s[0]=0"])
    assert (source and source.values, findings) == ({"s": [0, 2, 3, 4]}, [])


def test_a_list_that_was_extended_can_be_replaced_and_removed(tmp_path: Path) -> None:
    (tmp_path / "top.yaml").write_text("extends: r\ns: [9]\nt: null\n")
    composed(tmp_path, "s: {extend: [2]}\nt: {extend: [2]}\n", base="s: [1]\nt: [1]\n")
    source, _ = compose(str(tmp_path / "top.yaml"))
    assert source is not None
    assert source.values == {"s": [9]}
    assert set(source.marks) == {(), ("s",), ("s", 0)}


@pytest.mark.parametrize("child", ["m: {extend: {k: 1}}", "m: {extend: text}", "m: {extend: [1], other: 2}"])
def test_a_key_of_that_name_is_a_key_where_it_is_not_the_form(tmp_path: Path, child: str) -> None:
    assert "extend" in str(composed(tmp_path, child, base="m: {k: 0}\n").values["m"])


def test_within_an_item_of_a_list_it_is_a_key(tmp_path: Path) -> None:
    child = "rewards: [{options: {extend: [1]}}]\n"
    assert composed(tmp_path, child).values["rewards"] == [{"options": {"extend": [1]}}]
    source = composed(tmp_path, child, "rewards[0].options.extend=[2]", "rewards[0].more={extend: [3]}")
    assert source.values["rewards"] == [{"options": {"extend": [2]}, "more": {"extend": [3]}}]


@pytest.mark.parametrize(
    ("base", "child", "because"),
    [
        ("a: 1", "s: {extend: [1]}", "no parent has one"),
        ("a: 1", "g: {s: {extend: [1]}}", "no parent has one"),
        ("s: all-linear", "s: {extend: [1]}", "its value is all-linear"),
        ("s: null", "s: {extend: [1]}", "no parent has one"),
        ("s: {extend: [1]}", "a: 1", "no parent has one"),
        ("s: [1]", "s: {extend: 2}", "a list of items to add, not 2"),
    ],
)
def test_what_cannot_be_extended_is_one_finding_where_it_is_written(
    tmp_path: Path, base: str, child: str, because: str
) -> None:
    (tmp_path / "base.yaml").write_text(base + "\n")
    (tmp_path / "r.yaml").write_text(f"extends: base\n{child}\n")
    _, findings = compose(str(tmp_path / "r.yaml"))
    assert [finding.rule for finding in findings] == [ids.EXTEND_NO_LIST]
    assert because in findings[0].because[0]
    assert findings[0].mark is not None
    assert "extend" in findings[0].mark.line_text


@pytest.mark.parametrize("items", ['"</a>"', "7", "{a: 1}", "null"])
def test_one_item_that_is_no_list_is_shown_as_one(tmp_path: Path, items: str) -> None:
    (tmp_path / "base.yaml").write_text("stop: [x]\n")
    (tmp_path / "r.yaml").write_text(f"extends: base\nstop: {{extend: {items}}}\n")
    _, findings = compose(str(tmp_path / "r.yaml"))
    assert [finding.fix for finding in findings] == ["stop: {extend: [...]}"]


def test_an_override_that_extends_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("a: 1\n")
    _, findings = compose(str(tmp_path / "r.yaml"), ["s={extend: [1]}"])
    assert [(finding.rule, str(finding.mark)) for finding in findings] == [(ids.EXTEND_NO_LIST, "--set:1:1")]


def test_a_fix_of_an_item_is_not_written_into_the_form() -> None:
    with pytest.raises(NotRewritten):
        apply_patches("rewards: {extend: [accuracy]}\n", [Patch(("rewards", 1), {"name": "accuracy"})])
