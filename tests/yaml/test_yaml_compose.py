"""A recipe over its parents and under its overrides."""

from pathlib import Path

import pytest

from grpo_recipes.yaml import ids
from grpo_recipes.yaml.compose import Source, compose

BASE = """\
model: {path: ./base-model, dtype: float32, old: [1, 2]}
lora: {r: 8, lora_alpha: 16}
rewards: [{name: a}, {name: b}, {name: no}]
eval: no
"""
CHILD = """\
extends: shared/base.yaml
model: {dtype: bfloat16, old: null}
lora: null
rewards:
- {python: rewards.py:f, weight: 1.0}
eval: null
new: {on: yes, nothing: null}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "base.yaml").write_text(BASE)
    (tmp_path / "recipe.yaml").write_text(CHILD)
    return str(tmp_path / "recipe.yaml")


def composed(file: str, *overrides: str) -> Source:
    source, findings = compose(file, overrides)
    assert findings == []
    assert source is not None
    return source


def refused(file: str, *overrides: str) -> tuple[Source | None, str, str]:
    source, findings = compose(file, overrides)
    assert len(findings) == 1
    assert findings[0].fix
    return source, findings[0].rule, f"{findings[0].message} | {findings[0].because[0]} | {findings[0].fix}"


def test_file_without_parent_keeps_its_values_and_nulls(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("a: null\nb: {c: [1]}\nextends: null\n")
    source = composed(str(tmp_path / "r.yaml"))
    assert source.values == {"a": None, "b": {"c": [1]}}
    assert source.files == (str(tmp_path / "r.yaml"),)
    assert set(source.marks) == {(), ("a",), ("b",), ("b", "c"), ("b", "c", 0)}


def test_maps_merge_lists_replace_and_null_removes(recipe: str, tmp_path: Path) -> None:
    source = composed(recipe)
    assert source.values == {
        "model": {"path": "./base-model", "dtype": "bfloat16"},
        "rewards": [{"python": "rewards.py:f", "weight": 1.0}],
        "new": {"on": "yes", "nothing": None},
    }
    assert source.file == recipe
    assert source.files == (recipe, str(tmp_path / "shared" / "base.yaml"))


def test_marks_and_words_are_those_of_the_values_that_won(recipe: str, tmp_path: Path) -> None:
    source = composed(recipe)
    base = str(tmp_path / "shared" / "base.yaml")
    assert {path: mark.file for path, mark in source.marks.items()} == {
        (): recipe,
        ("model",): recipe,
        ("model", "path"): base,
        ("model", "dtype"): recipe,
        ("rewards",): recipe,
        ("rewards", 0): recipe,
        ("rewards", 0, "python"): recipe,
        ("rewards", 0, "weight"): recipe,
        ("new",): recipe,
        ("new", "on"): recipe,
        ("new", "nothing"): recipe,
    }
    assert source.words == {("new", "on")}
    dtype = source.marks[("model", "dtype")]
    assert (dtype.line, dtype.column, dtype.end_column) == (2, 9, 24)


def test_mark_of_an_absent_key_is_that_of_its_nearest_parent(recipe: str) -> None:
    source = composed(recipe)
    assert source.mark(("model", "revision", "x")) == source.marks[("model",)]
    assert source.mark(("nothing",)) == source.marks[()]


def test_directory_is_that_of_the_file_that_wrote_the_value(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    source = composed("../recipe.yaml", "dataset.path=rows.jsonl", "rewards[0].python=x.py:f")
    assert source.directory(("model", "path")) == str(tmp_path / "shared")
    assert source.directory(("model", "dtype")) == str(tmp_path)
    assert source.directory(("absent",)) == str(tmp_path)
    assert source.directory(("dataset", "path")) == str(tmp_path / "here")
    assert source.directory(("rewards", 0, "python")) == str(tmp_path / "here")
    assert source.directory(("rewards", 0, "weight")) == str(tmp_path)
    assert source.files == ("../recipe.yaml", "../shared/base.yaml")


def chain(folder: Path, count: int) -> str:
    for number in range(count):
        parent = f"extends: r{number + 1}.yaml\n" if number + 1 < count else ""
        (folder / f"r{number}.yaml").write_text(f"{parent}k{number}: 1\nwho: {number}\n")
    return str(folder / "r0.yaml")


def test_eight_parents_are_merged_nearest_first(tmp_path: Path) -> None:
    source = composed(chain(tmp_path, 9))
    assert source.values == {"who": 0} | {f"k{number}": 1 for number in range(9)}
    assert len(source.files) == 9


def test_ninth_parent_is_refused(tmp_path: Path) -> None:
    source, rule, _ = refused(chain(tmp_path, 10))
    assert (source, rule) == (None, ids.EXTENDS_TOO_DEEP)


@pytest.mark.parametrize(
    ("files", "rule", "place", "words"),
    [
        ({"r": "extends: r.yaml\n"}, ids.EXTENDS_CYCLE, "r.yaml:1:1", "extends itself"),
        (
            {"r": "extends: b.yaml\n", "b": "x: 1\nextends: ./r.yaml\n"},
            ids.EXTENDS_CYCLE,
            "b.yaml:2:1",
            "circle",
        ),
        ({"r": "a: 1\nextends: c.yaml\n", "b": "a: 1"}, ids.UNREADABLE, "r.yaml:2:1", "does not exist"),
        ({"r": "extends: .\n"}, ids.UNREADABLE, "r.yaml:1:1", "folder"),
        ({"r": "extends: b.yaml\n", "b": "- a\n"}, ids.NOT_A_MAPPING, "b.yaml:1:1", "mapping"),
        ({"r": "extends: b.yaml\n", "b": "a: @\n"}, ids.SYNTAX, "b.yaml:1:4", "cannot start any token"),
        ({"r": "extends: [b.yaml]\n"}, ids.EXTENDS_VALUE, "r.yaml:1:1", "one file"),
        ({"r": "extends: ''\n"}, ids.EXTENDS_VALUE, "r.yaml:1:1", "one file"),
        ({"r": "extends: {a: b}\n"}, ids.EXTENDS_VALUE, "r.yaml:1:1", "one file"),
    ],
)
def test_parent_that_cannot_be_had_is_one_finding(
    tmp_path: Path, files: dict[str, str], rule: str, place: str, words: str
) -> None:
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    source, findings = compose(str(tmp_path / "r.yaml"))
    assert source is None
    assert [finding.rule for finding in findings] == [rule]
    assert str(findings[0].mark) == str(tmp_path / place)
    assert words in f"{findings[0].message} {findings[0].because}"


def test_findings_of_all_files_and_overrides_come_in_one_run(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("extends: b.yaml\na: 010\n")
    (tmp_path / "b.yaml").write_text("b: None\n")
    source, findings = compose(str(tmp_path / "r.yaml"), ["c=1_0", "d", "e=5"])
    assert [finding.rule for finding in findings] == [
        ids.NUMBER_SPELLING,
        ids.PYTHON_NONE,
        ids.NUMBER_SPELLING,
        ids.OVERRIDE_SYNTAX,
    ]
    assert source is not None
    assert source.values == {"a": 10, "b": None, "c": 10, "e": 5}


OVERRIDES: list[tuple[list[str], dict[str, object]]] = [
    ([], {"a": {"b": 1}, "r": [{"w": 1}, {"w": 2}]}),
    (["a.b=2"], {"a": {"b": 2}, "r": [{"w": 1}, {"w": 2}]}),
    (["a.b=2", "a.b=3"], {"a": {"b": 3}, "r": [{"w": 1}, {"w": 2}]}),
    (["r[1].w=0.5"], {"a": {"b": 1}, "r": [{"w": 1}, {"w": 0.5}]}),
    (["r[0]={n: 1}"], {"a": {"b": 1}, "r": [{"w": 1, "n": 1}, {"w": 2}]}),
    (["r=[]", "a={c: 1}"], {"a": {"b": 1, "c": 1}, "r": []}),
    (["x.y.z=auto"], {"a": {"b": 1}, "r": [{"w": 1}, {"w": 2}], "x": {"y": {"z": "auto"}}}),
    (["a=null", "a.c=1"], {"a": {"c": 1}, "r": [{"w": 1}, {"w": 2}]}),
    (["x=null", "r=1"], {"a": {"b": 1}, "r": 1, "x": None}),
    (["r[0]=null", "r[0].n=1"], {"a": {"b": 1}, "r": [{"n": 1}, {"w": 2}]}),
    (["m.k=[[1, 2]]", "m.k[0][1]=3"], {"a": {"b": 1}, "r": [{"w": 1}, {"w": 2}], "m": {"k": [[1, 3]]}}),
    (["a.b=k=v"], {"a": {"b": "k=v"}, "r": [{"w": 1}, {"w": 2}]}),
]


@pytest.mark.parametrize(("overrides", "values"), OVERRIDES, ids=[" ".join(o) or "none" for o, _ in OVERRIDES])
def test_overrides_apply_in_order(tmp_path: Path, overrides: list[str], values: dict[str, object]) -> None:
    (tmp_path / "r.yaml").write_text("a: {b: 1}\nr: [{w: 1}, {w: 2}]\n")
    assert composed(str(tmp_path / "r.yaml"), *overrides).values == values


@pytest.mark.parametrize(
    ("override", "rule", "words"),
    [
        ("a.b", ids.OVERRIDE_SYNTAX, "a.b has no ="),
        ("", ids.OVERRIDE_SYNTAX, "has no ="),
        ("=1", ids.OVERRIDE_SYNTAX, "is not a key"),
        ("a..b=1", ids.OVERRIDE_SYNTAX, "a..b is not a key"),
        ("[0]=1", ids.OVERRIDE_SYNTAX, "[0] is not a key"),
        ("r[-1]=1", ids.OVERRIDE_SYNTAX, "r[-1] is not a key"),
        ("r[x]=1", ids.OVERRIDE_SYNTAX, "r[x] is not a key"),
        ("a: b=1", ids.OVERRIDE_SYNTAX, "a: b is not a key"),
        ("a.\x1b=1", ids.OVERRIDE_SYNTAX, "a.\\x1b is not a key"),
        ("extends=b.yaml", ids.OVERRIDE_PLACE, "extends cannot be overridden"),
        ("r[2].w=1", ids.OVERRIDE_PLACE, "r has no item 2 | it is a list of 2 items, counted from 0 | r[1].w=1"),
        ("a[0]=1", ids.OVERRIDE_PLACE, "a has no item 0 | it is a mapping"),
        ("x.y[0]=1", ids.OVERRIDE_PLACE, "x.y has no item 0 | it is a mapping"),
        ("r.w=1", ids.OVERRIDE_PLACE, "r has no key w | it is a list"),
        ("a.b.c=1", ids.OVERRIDE_PLACE, "a.b has no key c | it is the single value 1"),
        ("a.b=@x", ids.SYNTAX, "cannot start any token"),
        ("a.b=x #y", ids.OVERRIDE_SYNTAX, "dropped"),
    ],
)
def test_override_without_a_place_is_one_finding(tmp_path: Path, override: str, rule: str, words: str) -> None:
    (tmp_path / "r.yaml").write_text("a: {b: 1}\nr: [{w: 1}, {w: 2}]\n")
    source, found, text = refused(str(tmp_path / "r.yaml"), override)
    assert found == rule
    assert words in text
    assert source is not None
    assert source.values == {"a": {"b": 1}, "r": [{"w": 1}, {"w": 2}]}


@pytest.mark.parametrize(
    ("override", "fix"),
    [
        ("r.1.w=5", "r[1].w=5"),
        ("r.0={w: 5}", "r[0]={w: 5}"),
        ("r.w=5", "r[0].w=5"),
        ("r.2.w=5", "r[1].w=5"),
        ("r[0].w.x=5", "r[0].w={x: ...}"),
    ],
)
def test_an_override_of_an_item_is_told_as_it_has_to_be_written(override: str, fix: str, tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("a: {b: 1}\nr: [{w: 1}, {w: 2}]\n")
    _, findings = compose(str(tmp_path / "r.yaml"), [override])
    assert [finding.fix for finding in findings] == [fix]
    if "=" in fix and "..." not in fix:
        assert compose(str(tmp_path / "r.yaml"), [fix])[1] == []


def test_marks_of_an_override_point_into_its_text(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("a: {b: 1}\n")
    source = composed(str(tmp_path / "r.yaml"), "a.c={d: [yes, 2]}", "n.m=1")
    marked = {
        path: (str(mark), mark.line_text[mark.column - 1 : mark.end_column - 1])
        for path, mark in source.marks.items()
        if mark.file == "--set"
    }
    assert marked == {
        ("a", "c"): ("--set:1:1", "a.c={d: [yes, 2]}"),
        ("a", "c", "d"): ("--set:1:6", "d: [yes, 2]"),
        ("a", "c", "d", 0): ("--set:1:10", "yes"),
        ("a", "c", "d", 1): ("--set:1:15", "2"),
        ("n",): ("--set:1:1", "n.m=1"),
        ("n", "m"): ("--set:1:1", "n.m=1"),
    }
    assert source.words == {("a", "c", "d", 0)}


def test_refused_value_of_an_override_is_shown_in_its_text(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("a: 1\n")
    _, findings = compose(str(tmp_path / "r.yaml"), ["training.seed=010"])
    assert findings[0].key == "training.seed"
    assert findings[0].fix == "seed: 10"
    mark = findings[0].mark
    assert mark is not None
    assert (mark.file, mark.column, mark.end_column) == ("--set", 15, 18)
    assert mark.line_text == "training.seed=010"
