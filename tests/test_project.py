"""What an open project has beside its code: licence, changelog, hooks and workflow, each saying what is true here."""

import hashlib
import re
import tomllib
from pathlib import Path

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
