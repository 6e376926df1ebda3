"""The text of a completion, whichever of TRL's two shapes it has."""

Completion = str | list[dict[str, str]]


def completion_text(completion: Completion) -> str:
    """Returns the text of a plain completion, or of the last message of the model in a conversational one.

    With tools a completion is several messages: what the model said before a call is no answer, and what a tool
    replied is not the model's. A call without an answer behind it counts as what it says beside the call, mostly empty.
    """
    if isinstance(completion, str):
        return completion
    own = [message for message in completion if message.get("role") != "tool"]
    return (own[-1].get("content") or "") if own else ""
