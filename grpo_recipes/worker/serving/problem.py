"""The exceptions that end a run for its vLLM server's sake."""

from grpo_recipes.contract.findings.findings_text import Mistake


class ServerProblem(Mistake):
    """The server does not come up, or died too often: what, because of what, the way out. The run exits with 1."""


class ServerLost(Exception):
    """The server went away that has a machine of its own. The run exits with 75, and can be resumed with a new one."""
