"""docs/start.md: its files are written and its commands are run as they stand there, one after the other."""

import subprocess
from pathlib import Path

import pytest
from shown import commands_of, files_of, pages

PAGE = pages()["docs/start.md"]


def test_the_page_goes_up_the_whole_ladder() -> None:
    ran = " ; ".join(shown.command for shown in commands_of(PAGE))
    for step in ("init", "validate", "preflight", "--smoke", "--out", "--resume", "--verify", "use.py"):
        assert step in ran


@pytest.mark.stack
def test_all_commands_answer_as_shown_one_after_the_other(
    tmp_path: Path, warm_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sums"
    folder.mkdir()
    for name, text in files_of(PAGE).items():
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{warm_python}:/usr/bin:/bin")
    for shown in commands_of(PAGE):
        ran = subprocess.run(
            ["bash", "-c", shown.command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
        )
        assert ran.returncode == shown.code, ran.stdout
        assert shown.fits(ran.stdout), f"{shown.command}\n{ran.stdout}"
