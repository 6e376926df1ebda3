"""The exits of the worker, and the exception that ends it with a message instead of a traceback."""

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_NOT_STARTED = 2
EXIT_STOPPED = 3
EXIT_INTERRUPTED = 75


class Stopped(Exception):
    """A check forbids to go on: what differs, because of what, the way out. The worker exits with 3."""
