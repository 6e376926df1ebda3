"""The exception that ends a command, or a process of a run, with a message instead of a traceback."""

from collections.abc import Iterable
from typing import Self

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.contract.findings.findings_text import bare_text


class Mistake(Exception):
    """What is wrong, as findings, of which its text is made. Each room of the program raises a kind of its own."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__(*findings)

    def __str__(self) -> str:
        return bare_text(self.findings)

    @classmethod
    def of(cls, message: str, *, because: str | Iterable[str] = (), fix: str | None = None) -> Self:
        """The exception with the one finding that `mistake` makes of this."""
        return cls(mistake(message, because=because, fix=fix))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong, at least one."""
        return self.args
