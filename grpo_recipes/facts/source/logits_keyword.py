"""The keyword by which a model class is asked for the last logits alone."""

from typing import NamedTuple

NEW, OLD = "logits_to_keep", "num_logits_to_keep"


class LogitsKeyword(NamedTuple):
    """How a model class can be asked for the logits of the last positions alone.

    name: the keyword that forward declares, None when it has none. translated: a decorator still turns
    num_logits_to_keep into logits_to_keep. swallows: forward takes any keyword, so that a wrong name is ignored
    in silence instead of being a TypeError.
    """

    name: str | None
    translated: bool
    swallows: bool

    def takes(self, word: str) -> bool:
        """Whether forward builds the last logits alone when asked by this word."""
        return word == self.name or (self.translated and word == OLD)
