"""The exception that ends a run for its vLLM server's sake."""


class ServerProblem(Exception):
    """The server does not come up, or died too often: what, because of what, the way out. The run exits with 1."""
