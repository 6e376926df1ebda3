"""The one exception that ends grpo-run with a message instead of a traceback."""

from grpo_recipes.contract.exits import EXIT_NOT_STARTED


class Refusal(Exception):
    """One clear message that ends the command: where, what, because, fix.

    text: what is printed to stderr, without the leading "error: "; exit_code: one of contract/exits.py.
    """

    def __init__(self, text: str, *, exit_code: int = EXIT_NOT_STARTED) -> None:
        super().__init__(text)
        self.text = text
        self.exit_code = exit_code
