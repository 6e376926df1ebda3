"""Every command in a console block of README.md and docs/ answers as it is shown there.

Those of docs/start.md and docs/sharing.md are run one after the other, by test_start.py and test_sharing.py.
"""

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from shown import ROOT, Shown, commands_of, files_of, pages

OF_OTHERS = ("docs/start.md", "docs/sharing.md")
ALONE = [(page, one) for page, text in pages().items() if page not in OF_OTHERS for one in commands_of(text)]


def _name(case: object) -> str:
    return " ".join(case.command.split()[1:3]) if isinstance(case, Shown) else str(case)


def _trains(shown: Shown) -> bool:
    return "--smoke" in shown.command


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the shipped recipes, in which the commands run."""
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_pages_show_what_they_are_about() -> None:
    shown = {word for _, one in ALONE for word in one.command.split()[1:2]}
    assert {"validate", "diff", "doctor", "plan"} <= shown
    assert any(_trains(one) for _, one in ALONE)


def test_only_commands_in_console_blocks_are_shown_with_a_dollar() -> None:
    for page, text in pages().items():
        others = re.findall(r"(?ms)^```(?:text)?\n\$ grpo-run.*?^```$", text)
        assert others == [], f"{page}: what is shown is run, so it stands in a console block"


@pytest.mark.parametrize(("page", "shown"), [case for case in ALONE if not _trains(case[1])], ids=_name)
@pytest.mark.slow
def test_a_shown_answer_is_what_the_command_prints(page: str, shown: Shown, there: Path, grpo_run: Callable) -> None:
    for name, text in files_of(pages()[page]).items():
        if name.count("/") == 0:
            (there / name).write_text(text)
    program, *words = shlex.split(shown.command)
    assert program == "grpo-run"
    answer = grpo_run(*words)
    assert answer.code == shown.code, answer.err
    assert shown.fits(answer.out), answer.out


@pytest.mark.stack
@pytest.mark.parametrize(("page", "shown"), [case for case in ALONE if _trains(case[1])], ids=_name)
def test_a_shown_training_ends_as_shown(
    page: str, shown: Shown, there: Path, warm_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{warm_python}:/usr/bin:/bin")
    ran = subprocess.run(["bash", "-c", shown.command], stdout=subprocess.PIPE, text=True, timeout=300)
    assert ran.returncode == shown.code
    assert shown.fits(ran.stdout), ran.stdout
