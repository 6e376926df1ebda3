"""What `extends` can name: a file, one of a folder of presets, a shipped recipe; and what it cannot."""

import os
from pathlib import Path

import pytest

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.compose import Source, compose
from grpo_recipes.yaml.parents import shipped_files

ROOT = Path(__file__).parents[2]


def team(folder: Path, **files: str) -> str:
    """A folder with presets/ and the recipe r.yaml in it. files: texts by name, those of the presets first."""
    (folder / "presets").mkdir()
    for name, text in files.items():
        place = folder / f"{name}.yaml" if name == "r" else folder / "presets" / f"{name}.yaml"
        place.write_text(text)
    return str(folder / "r.yaml")


def composed(file: str, *overrides: str) -> Source:
    source, findings = compose(file, overrides)
    assert findings == []
    assert source is not None
    return source


def refused(file: str) -> Finding:
    source, findings = compose(file)
    assert (source, len(findings)) == (None, 1)
    assert (findings[0].key, findings[0].severity) == ("extends", "error")
    return findings[0]


@pytest.mark.parametrize("written", ["presets/base", "presets/base.yaml", "./presets/base", "presets/../presets/base"])
def test_a_preset_is_named_with_or_without_its_suffix(tmp_path: Path, written: str) -> None:
    source = composed(team(tmp_path, r=f"extends: {written}\nb: 2\n", base="a: 1\nb: 1\n"))
    assert source.values == {"a": 1, "b": 2}
    assert str(source.marks[("a",)]).endswith("presets/base.yaml:1:1")


def test_the_exact_name_comes_before_the_one_with_a_suffix(tmp_path: Path) -> None:
    file = team(tmp_path, r="extends: presets/base.yaml\n", base="a: 1\n")
    (tmp_path / "presets/base.yaml.yaml").write_text("a: 2\n")
    (tmp_path / "presets/base.yml").write_text("a: 3\n")
    assert composed(file).values == {"a": 1}


def test_presets_extend_each_other_beside_themselves(tmp_path: Path) -> None:
    file = team(
        tmp_path, r="extends: presets/small\n", small="extends: base\nb: 2\n", base="path: ./rows.jsonl\nb: 1\n"
    )
    source = composed(file)
    assert source.values == {"path": "./rows.jsonl", "b": 2}
    assert source.directory(("path",)) == str(tmp_path / "presets")


def test_presets_in_a_circle_are_refused_where_it_closes(tmp_path: Path) -> None:
    found = refused(team(tmp_path, r="extends: presets/a\n", a="extends: b\n", b="x: 1\nextends: ../presets/a\n"))
    assert found.rule == ids.EXTENDS_CYCLE
    assert str(found.mark) == f"{tmp_path}/presets/b.yaml:2:1"
    assert found.because == ("the circle is a.yaml -> b.yaml -> a.yaml",)


def test_a_folder_of_presets_can_be_chained_eight_deep_and_no_deeper(tmp_path: Path) -> None:
    presets = {f"p{number}": f"extends: p{number + 1}\nk{number}: 1\n" for number in range(8)}
    file = team(tmp_path, r="extends: presets/p1\n", **presets, p8="k8: 1\n")
    assert len(composed(file).files) == 9
    (tmp_path / "r.yaml").write_text("extends: presets/p0\n")
    assert refused(file).rule == ids.EXTENDS_TOO_DEEP


def test_an_unknown_preset_names_the_nearest_and_all(tmp_path: Path) -> None:
    found = refused(team(tmp_path, r="extends: presets/bsae\n", base="a: 1\n", large="a: 2\n"))
    assert found.rule == ids.UNREADABLE
    assert (found.because, found.fix) == (("its folder has base, large",), "extends: presets/base")


def test_a_shipped_recipe_is_extended_by_its_name(tmp_path: Path) -> None:
    file = team(tmp_path, r="extends: grpo-recipes:quickstart\nname: mine\ngrpo: {beta: 0.04}\n")
    source = composed(file)
    own = {("name",), ("grpo",), ("grpo", "beta"), ()}
    assert {path for path, mark in source.marks.items() if mark.file == file} == own
    line = (ROOT / "recipes/quickstart.yaml").read_text().splitlines().index("generation:") + 1
    assert str(source.marks[("generation",)]) == f"grpo-recipes:quickstart:{line}:1"
    assert source.directory(("dataset", "path")) == str(ROOT / "recipes")
    assert source.files == (file, "grpo-recipes:quickstart")


def test_what_a_shipped_recipe_extends_has_a_name_too(tmp_path: Path) -> None:
    source = composed(team(tmp_path, r="extends: grpo-recipes:quickstart_qlora.yaml\n"))
    assert source.files[1:] == ("grpo-recipes:quickstart_qlora", "grpo-recipes:quickstart")
    assert source.directory(("model", "model_name_or_path")) == str(ROOT / "recipes")


def test_an_unknown_shipped_recipe_names_the_nearest_and_all(tmp_path: Path) -> None:
    found = refused(team(tmp_path, r="extends: grpo-recipes:qwen2_lroa\n"))
    assert found.rule == ids.EXTENDS_VALUE
    assert found.because[0].startswith(f"there are {', '.join(list(shipped_files())[:7])}")
    assert found.fix == "extends: grpo-recipes:qwen2_lora"


def test_a_shipped_name_is_no_path(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text("a: 1\n")
    found = refused(team(tmp_path, r=f"extends: grpo-recipes:../../..{tmp_path}/secret\n"))
    assert found.rule == ids.EXTENDS_VALUE


def test_a_forgotten_prefix_is_the_fix(tmp_path: Path) -> None:
    assert refused(team(tmp_path, r="extends: qwen2_lora\n")).fix == "extends: grpo-recipes:qwen2_lora"


def test_what_is_no_yaml_file_is_never_read(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_1234: secret\n")
    found = refused(team(tmp_path, r="extends: token\n"))
    assert (found.rule, "secret" in str(found)) == (ids.UNREADABLE, False)


def test_a_link_leads_to_a_yaml_file_or_nowhere(tmp_path: Path) -> None:
    file = team(tmp_path, r="extends: presets/linked\n", base="a: 1\n")
    (tmp_path / "token").write_text("hf_1234: secret\n")
    os.symlink(tmp_path / "presets/base.yaml", tmp_path / "presets/linked.yaml")
    assert composed(file).values == {"a": 1}
    os.unlink(tmp_path / "presets/linked.yaml")
    os.symlink(tmp_path / "token", tmp_path / "presets/linked.yaml")
    found = refused(file)
    assert (found.rule, "secret" in str(found)) == (ids.EXTENDS_VALUE, False)
