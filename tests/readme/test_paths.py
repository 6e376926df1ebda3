"""Every file and folder that README.md, docs/, CONTRIBUTING.md and SECURITY.md name is there."""

import re

from shown import MADE, ROOT, pages

FOLDERS = "benchmarks|constraints|docs|examples|grpo_recipes|recipes|schemas|tests"
NAMED = re.compile(rf"(?<![\w/.-])((?:{FOLDERS})/[\w./-]*\w/?|(?:{FOLDERS})/)")


def _named() -> set[tuple[str, str]]:
    """Pages with the paths that they name."""
    made = {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in MADE}
    included = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "SECURITY.md")}
    texts = {**pages(), **made, **included}
    return {(page, path) for page, text in texts.items() for path in NAMED.findall(text)}


def _missing(named: set[tuple[str, str]]) -> list[str]:
    return sorted(f"{page}: {path}" for page, path in named if not (ROOT / path).exists())


def test_every_path_outside_of_the_package_exists() -> None:
    named = {(page, path) for page, path in _named() if not path.startswith("grpo_recipes/")}
    assert len(named) > 100
    assert _missing(named) == []


def test_every_path_of_the_package_exists() -> None:
    assert _missing({(page, path) for page, path in _named() if path.startswith("grpo_recipes/")}) == []


def test_the_table_of_layers_has_every_folder_of_the_package() -> None:
    table = pages()["docs/how-it-works.md"].partition("## Layers")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)/`", row)}
    assert named == {path.parent.name for path in (ROOT / "grpo_recipes").glob("*/__init__.py")}
