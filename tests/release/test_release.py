"""`make release-of` on a TRL that was never released: each change is read and shown, and the tables get it."""

import zipfile
from pathlib import Path
from textwrap import indent

import pytest
from changes import member_change, methods_in, path_in_wheel
from collect_facts import digests_of, package_texts, requirements_of
from pins import moved_texts, moved_windows, pinned_release
from rehearsal import DEFAULT, FIELD, METHOD, next_minor, rehearsed_wheel
from release_of import PACKAGES, READ_ONLY, main

from grpo_recipes.facts.facts import DIGESTS
from grpo_recipes.facts.released.requirements import TABLE as REQUIREMENTS
from grpo_recipes.facts.released.shipped import DATA, releases_with_facts, table
from grpo_recipes.facts.source.package_facts import MODULES, package_folder

OTHERWISE = "step takes its arguments in another order or with other defaults"

pytestmark = pytest.mark.skipif(package_folder("trl") is None, reason="TRL is not installed")


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The version and the wheel."""
    return rehearsed_wheel(tmp_path_factory.mktemp("rehearsed"))


def test_every_change_is_shown_and_what_a_person_decides(
    rehearsed: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"trl=={rehearsed[0]}", "--read", "--rehearse"]) == 1
    shown, _, decisions = capsys.readouterr().out.partition("left to a person:")
    assert f"GRPOConfig.{FIELD}: new, default 0.0" in shown
    assert f"GRPOConfig.{DEFAULT[0]}: default {DEFAULT[1]} -> {DEFAULT[2]}" in shown
    assert f"{METHOD[0]} is gone" in shown and "trl/trainer/grpo_trainer.py: +" in shown
    assert f"classify {FIELD} in" in decisions and f"{METHOD[0]} is gone: read it" in decisions


def test_the_same_release_again_changes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    version, wheel = rehearsed_wheel(tmp_path, changes=False)
    assert main([f"trl=={version}", "--read", "--wheel", str(wheel)]) == 0
    assert capsys.readouterr().out.count("none\n") == 4


@pytest.mark.parametrize(
    ("after", "change"),
    [
        ('def step(self, a: float, b=1):\n    """Says."""\n    return a', ""),
        ("def step(self, rows, b=1):\n    return a", "step takes no a; takes rows"),
        ("def step(self, a, b=2):\n    return a", OTHERWISE),
        (
            "def step(self, a, *, b=1):\n    return a",
            OTHERWISE,
        ),
        ("def step(self, a, b=1):\n    return b", "step has another body"),
        ("def other(self):\n    return 1", "step is gone"),
    ],
    ids=["annotations-and-a-docstring", "renamed", "a-default", "by-name", "a-body", "gone"],
)
def test_a_member_that_changes_is_named(after: str, change: str) -> None:
    before, methods = (
        methods_in(f"class Trainer:\n{indent(text, '    ')}")
        for text in ("def step(self, a, b=1):\n    return a", after)
    )
    assert member_change(before["step"], methods.get("step")) == change


def test_a_package_without_a_tested_release_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["numpy==2.0"])
    assert "numpy==2.0 is not PACKAGE==VERSION" in capsys.readouterr().err


@pytest.mark.parametrize("package", MODULES)
def test_what_the_tables_have_is_kept_to_the_byte(package: str) -> None:
    known = releases_with_facts(package)
    for name, text in package_texts(package, known, iter(())).items():
        assert text == (DATA / f"{name}.json").read_text(encoding="utf-8"), name
    assert digests_of(package, known, iter(())) == table(DIGESTS)[package]
    assert requirements_of(package, table(REQUIREMENTS)[package]["releases"], iter(())) == table(REQUIREMENTS)[package]


def test_a_newer_release_is_added_to_the_tables(rehearsed: tuple[str, Path]) -> None:
    version, wheel = rehearsed
    known = releases_with_facts("trl")
    (text,) = package_texts("trl", known, iter([(version, zipfile.ZipFile(wheel))])).values()
    (field,) = [line for line in text.splitlines() if f'"{FIELD}"' in line]
    assert f'[["{version}", "{version}", {{' in field
    rows = requirements_of("trl", table(REQUIREMENTS)["trl"]["releases"], iter([(version, zipfile.ZipFile(wheel))]))
    assert rows["releases"] == [*table(REQUIREMENTS)["trl"]["releases"], version]


@pytest.mark.parametrize(
    ("text", "package", "version", "moved"),
    [
        ('"trl>=1.16.0,<1.17"', "transformers", "5.24.0", '"trl>=1.16.0,<1.17"'),
        ('"transformers>=5.23,<5.24"', "transformers", "5.24.1", '"transformers>=5.24,<5.25"'),
        ('"trl>=1.16.0,<1.17"', "trl", "1.17.2", '"trl>=1.17.2,<1.18"'),
        ('"transformers<5.24", # alone', "transformers", "6.0.0", '"transformers<6.1", # alone'),
    ],
    ids=["another-package", "two-numbers", "three-numbers", "no-lower-bound"],
)
def test_windows_hold_the_release_and_end_before_the_next(text: str, package: str, version: str, moved: str) -> None:
    assert moved_windows(text, package, version) == moved


@pytest.mark.parametrize("package", [name for name in PACKAGES if name not in READ_ONLY])
def test_the_windows_of_the_project_are_those_of_the_tested_release(package: str) -> None:
    text = Path("pyproject.toml").read_text(encoding="utf-8")
    assert moved_windows(text, package, pinned_release(package)) == text and f'"{package}>=' in text


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("with\n  trl 1.16.0, 1.15.0: the same", "with\n  trl 1.16.0, 1.15.0: the same"),
        ("from trl 0.14.0 to 1.16.0, and", "from trl 0.14.0 to 1.17.0, and"),
        ("--target trl==1.16.0,peft==0.21.2", "--target trl==1.17.0,peft==0.21.2"),
        ("  trl     1.16.0   0.23.1", "  trl     1.17.0   0.23.1"),
        ("# Can be expressed by: trl 0.14.0-1.16.0", "# Can be expressed by: trl 0.14.0-1.17.0"),
        ("# Can be expressed by: trl 1.8.0-1.14.2, 1.16.0", "# Can be expressed by: trl 1.8.0-1.14.2, 1.16.0-1.17.0"),
        ("| `top_k: 0` | 0.16.0-1.16.0 |", "| `top_k: 0` | 0.16.0-1.17.0 |"),
    ],
    ids=["a-measurement", "a-range", "an-example", "a-table", "a-recipe", "a-recipe-with-gaps", "releases-of-a-value"],
)
def test_pages_end_their_ranges_with_the_release(text: str, moved: str) -> None:
    assert moved_texts(text, "trl", "1.16.0", "1.17.0") == moved


def test_a_citation_means_the_file_that_is_least_deep() -> None:
    names = ("trl/experimental/grpo/trainer.py", "trl/trainer.py", "trl/my_trainer.py")
    assert path_in_wheel("trainer.py", names) == "trl/trainer.py"
    assert path_in_wheel("other.py", names) is None


def test_a_rehearsal_of_a_real_release_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([f"trl=={pinned_release('trl')}", "--read", "--rehearse"])
    assert f"--rehearse makes trl=={next_minor(pinned_release('trl'))}" in capsys.readouterr().err


def test_the_tested_release_is_that_of_the_lock() -> None:
    assert pinned_release("trl") in Path("constraints/cpu.txt").read_text(encoding="utf-8")
    assert pinned_release("vllm") in Path("constraints/cuda.txt").read_text(encoding="utf-8")
