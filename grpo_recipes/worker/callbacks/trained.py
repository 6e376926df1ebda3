"""What ends a training before its trainer does."""


class Trained(Exception):
    """There is nothing left to train: the last step was taken, or the recipe's stop_after ends it."""
