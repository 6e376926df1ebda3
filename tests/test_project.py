"""What an open project has beside its code: licence, changelog, hooks and workflow, each saying what is true here."""

import hashlib
import re
import tomllib
from pathlib import Path

from grpo_recipes.rules.registry import rules

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# https://www.apache.org/licenses/LICENSE-2.0.txt
APACHE = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def test_the_licence_is_the_whole_of_what_the_metadata_says() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE
    assert all((ROOT / name).is_file() for name in PROJECT["license-files"])


def test_a_file_that_the_notice_names_is_there() -> None:
    named = re.findall(r"[\w/.]+\.json", (ROOT / "NOTICE").read_text(encoding="utf-8"))
    assert named
    assert all((ROOT / name).is_file() for name in named)


def test_the_changelog_has_the_sections_of_its_form_and_rules_that_are() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert releases[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", one) for one in releases[1:])
    sections = set(re.findall(r"^### (.*)$", text, re.MULTILINE))
    assert sections <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"\b[A-Z]{3}\d{3}\b", text)) <= {rule.id for rule in rules()}


def test_the_paths_that_contributing_names_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:\.ci|constraints|grpo_recipes|recipes|tests)/[\w/.]*)`", text)
    assert named
    assert all((ROOT / path).exists() for path in named)
    targets = set(re.findall(r"`make ([\w-]+)", text))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets), targets
