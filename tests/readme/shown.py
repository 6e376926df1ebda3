"""What README.md and docs/ show: their files, and their commands with the answers."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
MADE = (DOCS / "recipe-reference.md", *(DOCS / "rules").glob("*.md"))


def pages() -> dict[str, str]:
    """README.md and the pages of docs/ that are written by hand, by name."""
    files = [README, *(file for file in sorted(DOCS.rglob("*.md")) if file not in MADE)]
    return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}


def files_of(text: str) -> dict[str, str]:
    """The files that a page shows: `name`: and a block."""
    return dict(re.findall(r"(?ms)`([^`\n]+)`:\n\n```\w+\n(.*?)^```$", text))


@dataclass(frozen=True, slots=True)
class Shown:
    """A command with what a page shows of its answer; a line of dots stands for any lines, dots in a line for text."""

    command: str
    answer: str

    @property
    def code(self) -> int:
        """How it ends, as the answer tells."""
        refused = re.search(r"(?m)^(\S+ )?error: ", self.answer)
        return 2 if refused else 1 if "a different experiment" in self.answer else 0

    def fits(self, text: str) -> bool:
        lines = [r"(?s:.*\n)?" if line == "..." else _with_dots(line) + r"\n" for line in _plain(self.answer)]
        return re.fullmatch("".join(lines), "".join(f"{line}\n" for line in _plain(text))) is not None


def commands_of(text: str) -> list[Shown]:
    """The commands of a page's console blocks, in their order."""
    return [
        Shown(command, answer)
        for block in re.findall(r"(?ms)^```console\n(.*?)^```$", text)
        for command, answer in re.findall(r"(?m)^\$ (.*)\n((?:(?!\$ ).*\n)*)", block)
    ]


def _plain(text: str) -> list[str]:
    """The lines without what a machine decides: measured figures, the widths of columns, and quotes of paths."""
    lines = [re.sub(r"(?<= )[\d.]+", "N", line) if "held out" in line else line for line in text.rstrip().splitlines()]
    lines = [re.sub(r"'(/[^']*)'", r"\1", line) for line in lines]
    return [re.sub(r"(?<=\S) {2,}", "  ", line.rstrip()) for line in lines]


def _with_dots(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("..."))
