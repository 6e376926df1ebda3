"""The tables of completions that TRL prints, writes and sends away, without secrets."""

from collections import deque
from collections.abc import Callable
from typing import Any, cast

from grpo_recipes.contract.secrets.redact import redact_value

# Where TRL keeps what its next table will hold: in the first since 0.20, in the other before.
KEPT_IN = ("_logs", "_textual_logs")
TEXTS = ("prompt", "completion")


def redact_completions(trainer: Any) -> None:
    """From now on the trainer's tables are redacted: prompts, completions, and what rewards add with `log_extra`.

    Those of a trainer that shows none, which is what its log_completions says, stay as they are.
    """
    if getattr(trainer, "log_completions", True):
        trainer.log = _redacting(trainer, trainer.log)


def _redacting(trainer: Any, log: Callable[..., Any]) -> Callable[..., Any]:
    def redacted_log(*args: Any, **keywords: Any) -> Any:
        for name in KEPT_IN:
            kept = getattr(trainer, name, None)
            if isinstance(kept, dict):
                _redact_tables(kept)
        return log(*args, **keywords)

    return redacted_log


def _redact_tables(kept: dict[str, Any]) -> None:
    for name in TEXTS:
        if name in kept:
            kept[name] = _redacted(kept[name])
    extra = kept.get("extra")
    if isinstance(extra, dict):
        redacted = {str(redact_value(str(name))): _redacted(values) for name, values in extra.items()}
        extra.clear()
        extra.update(redacted)


def _redacted(values: Any) -> Any:
    """A list or deque with its texts redacted; numbers and pictures stay as they are."""
    texts = cast("list[Any]", redact_value(list(values)))
    return deque(texts, maxlen=values.maxlen) if isinstance(values, deque) else texts
