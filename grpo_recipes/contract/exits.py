"""The exit codes of grpo-run and of a run, however it was started, and the exception that ends a command with one."""

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.findings_text import Mistake

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_DIFFERENT = 1
EXIT_NOT_STARTED = 2
EXIT_STOPPED = 3
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 75


class Refusal(Mistake):
    """Ends the command with a message instead of a traceback, printed to stderr after "error: ".

    exit_code: one of the above.
    """

    def __init__(self, *findings: Finding, exit_code: int = EXIT_NOT_STARTED) -> None:
        super().__init__(*findings)
        self.exit_code = exit_code
