"""The exception that ends the worker with a message instead of a traceback."""

from grpo_recipes.contract.findings.mistake import Mistake


class Refused(Mistake):
    """A check forbids to go on: what differs, because of what, the way out. The worker exits with 3."""
