"""The exception that ends the worker with a message instead of a traceback."""


class Stopped(Exception):
    """A check forbids to go on: what differs, because of what, the way out. The worker exits with 3."""
