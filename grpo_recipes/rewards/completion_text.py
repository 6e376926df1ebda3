"""The text of a completion, whichever of TRL's two shapes it has."""

Completion = str | list[dict[str, str]]


def completion_text(completion: Completion) -> str:
    """Returns the text of a plain completion, or of all messages of a conversational one in their order.

    A message without content (a tool call) counts as empty.
    """
    if isinstance(completion, str):
        return completion
    return "".join(message.get("content") or "" for message in completion)
