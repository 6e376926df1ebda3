"""The exception that ends grpo-run with a message instead of a traceback."""

from grpo_recipes.contract.exits import EXIT_NOT_STARTED
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.findings_text import Mistake


class Refusal(Mistake):
    """Ends the command; the message is printed to stderr after "error: ". exit_code: one of contract/exits.py."""

    def __init__(self, *findings: Finding, exit_code: int = EXIT_NOT_STARTED) -> None:
        super().__init__(*findings)
        self.exit_code = exit_code
