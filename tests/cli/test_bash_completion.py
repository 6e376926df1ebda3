"""Completion in a real bash: what stands on the line after a tab."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

BASH = shutil.which("bash")
pytestmark = [pytest.mark.processes, pytest.mark.skipif(BASH is None, reason="bash is not installed")]
_LONGEST_S = 60.0


class Terminal:
    """A bash in a terminal of its own."""

    def __init__(self, here: Path) -> None:
        self._ours, theirs = pty.openpty()
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": str(here), "TERM": "dumb", "PS1": "$ ", "INPUTRC": "/dev/null"}
        assert BASH is not None
        self._process = subprocess.Popen(
            [BASH, "--norc", "--noprofile", "-i"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=here,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)
        self.run('bind "set enable-bracketed-paste off"; eval "$(grpo-run completion bash)"')

    def run(self, command: str) -> str:
        """What a command prints."""
        self._write(f"{command}; printf 'do''ne\\n'\n")
        return self._until("done\r\n")

    def completed(self, line: str) -> str:
        """The words of the line after a tab, each behind a bar; printf stands in for the command."""
        self._write(f"{line}\t\x01printf '|%s' \x05 '<e''nd>'\n")
        return self._until("<end>").rpartition("\n")[2].removesuffix("|<end>")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def _write(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def _until(self, mark: str) -> str:
        said, give_up = "", time.monotonic() + _LONGEST_S
        while mark not in said:
            ready, _, _ = select.select([self._ours], [], [], max(0.0, give_up - time.monotonic()))
            assert ready, f"bash said {said!r}"
            said += os.read(self._ours, 4096).decode(errors="replace")
        return said.partition(mark)[0] + mark


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Completes a line in a folder with some files."""
    here = tmp_path_factory.mktemp("here")
    for name in ("plain.yaml", "with space.yaml", "notes.txt", "folder/inner.json"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text("")
    opened = Terminal(here)
    yield opened.completed
    opened.close()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("grpo-run nothing-begins-s", "nothing-begins-s"),
        ("grpo-run expl", "explain"),
        ("grpo-run no", "notes.txt"),
        ("grpo-run wi", "with space.yaml"),
        ("grpo-run validate no", "notes.txt"),
        ("grpo-run validate wi", "with space.yaml"),
        ("grpo-run validate folder/", "folder/inner.json"),
        ("grpo-run validate plain.yaml --form", "validate|plain.yaml|--format"),
        ("grpo-run validate plain.yaml --format sa", "validate|plain.yaml|--format|sarif"),
        ("grpo-run validate plain.yaml --format=sa", "validate|plain.yaml|--format=sarif"),
        ("grpo-run plain.yaml --target=no", "plain.yaml|--target=notes.txt"),
        ("grpo-run plain.yaml --set grpo.bet", "plain.yaml|--set|grpo.beta="),
        ("grpo-run runs --filter grpo.bet", "runs|--filter|grpo.beta="),
        ("grpo-run runs fol", "runs|folder/"),
        ("grpo-run explain training.learning_r", "explain|training.learning_rate"),
    ],
)
def test_a_tab_completes(line: str, words: str, terminal: Callable[[str], str]) -> None:
    found = terminal(line).split("|")[1:]
    assert found[0] == "grpo-run"
    assert "|".join(found[-len(words.split("|")) :]) == words
