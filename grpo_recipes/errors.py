"""The exits of grpo-run, and the one exception that ends it with a message instead of a traceback."""

EXIT_DONE = 0
EXIT_TRAINER_FAILED = 1
EXIT_DIFFERENT = 1
EXIT_NOT_STARTED = 2
EXIT_STOPPED = 3
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 75


class Refusal(Exception):
    """One clear message that ends the command: where, what, because, fix.

    text: what is printed to stderr, without the leading "error: "; exit_code: one of the exits above.
    """

    def __init__(self, text: str, *, exit_code: int = EXIT_NOT_STARTED) -> None:
        super().__init__(text)
        self.text = text
        self.exit_code = exit_code
