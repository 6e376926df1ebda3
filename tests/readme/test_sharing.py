"""docs/sharing.md: its files are written and its commands are run as they stand there."""

import glob
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from shown import Shown, commands_of, files_of, pages

PAGE = pages()["docs/sharing.md"]
FILES = files_of(PAGE)
COMMANDS = commands_of(PAGE)


def _trains(shown: Shown) -> bool:
    return not re.match(r"grpo-run (validate|plan|explain|diff team)", shown.command)


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


def test_the_page_shows_a_base_three_children_a_shared_reward_and_every_command() -> None:
    assert {"team/presets/base.yaml", "team/rewards.py", "team/hard_sums.jsonl"} < FILES.keys()
    assert sum(name.startswith("team/") and name.count("/") == 1 and name.endswith(".yaml") for name in FILES) == 3
    assert {shown.command.split()[1] for shown in COMMANDS} >= {"validate", "plan", "explain", "diff", "team/kl.yaml"}
    assert sum(_trains(shown) for shown in COMMANDS) == 3


@pytest.mark.parametrize(
    "shown", [one for one in COMMANDS if not _trains(one)], ids=lambda one: " ".join(one.command.split()[1:3])
)
def test_a_command_that_trains_nothing_answers_as_shown(shown: Shown, team: Path, grpo_run: Callable) -> None:
    words = [found for word in shlex.split(shown.command)[1:] for found in sorted(glob.glob(word)) or [word]]
    answer = grpo_run(*words)
    assert answer.code == shown.code
    assert shown.fits(answer.out), answer.out
    assert not (team / "runs").exists()


@pytest.mark.stack
def test_all_commands_answer_as_shown_one_after_the_other(
    team: Path, warm_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{warm_python}:/usr/bin:/bin")
    for shown in COMMANDS:
        ran = subprocess.run(
            ["bash", "-c", shown.command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
        )
        assert ran.returncode == shown.code, ran.stdout
        assert shown.fits(ran.stdout), f"{shown.command}\n{ran.stdout}"


def test_an_answer_that_is_not_the_shown_one_does_not_fit() -> None:
    shown = Shown("x", "a\n...\nb ... d\n")
    assert shown.fits("a\n1\n2\nb c d\n")
    assert shown.fits("a\nb  d")
    assert not shown.fits("a\nb c\n")
    assert not shown.fits("a\nb c d\ne\n")
