"""docs/start.md: its files are written and its commands are run as they stand there, one after the other."""

import subprocess
from pathlib import Path

import pytest
from shown import Shown, commands_of, files_of, pages

PAGE = pages()["docs/start.md"]
COMMANDS = commands_of(PAGE)


def _needs_the_run(shown: Shown) -> bool:
    return any(words in shown.command for words in ("runs/first", "--resume", "use.py"))


def test_the_page_goes_up_the_whole_ladder() -> None:
    ran = " ; ".join(shown.command for shown in COMMANDS)
    for step in ("init", "validate", "preflight", "--smoke", "--out", "--resume", "--verify", "use.py"):
        assert step in ran


@pytest.mark.stack
@pytest.mark.parametrize(
    "commands",
    [
        pytest.param([one for one in COMMANDS if not _needs_the_run(one)], id="without the run"),
        pytest.param(COMMANDS, id="all", marks=pytest.mark.long),
    ],
)
def test_commands_answer_as_shown_one_after_the_other(
    commands: list[Shown], tmp_path: Path, warm_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sums"
    folder.mkdir()
    for name, text in files_of(PAGE).items():
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{warm_python}:/usr/bin:/bin")
    for shown in commands:
        program = shown.command.replace("python use.py", "python -Xwarm use.py")  # which has the libraries
        ran = subprocess.run(
            ["bash", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
        )
        assert ran.returncode == shown.code, ran.stdout
        assert shown.fits(ran.stdout), f"{shown.command}\n{ran.stdout}"
