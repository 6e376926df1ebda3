"""Checks whether TRL accepts a prompt: a string, or a list of messages with role and content."""

import re
from collections.abc import Mapping, Sequence

SOURCE_NAME = "source_name"
"""The column of a mixture's rows with the name of their source."""
PREFILLS = "prefills"
"""A parameter by which a reward gets the part of each answer that the prompt already contains, as `<think>`."""
PICTURES = ("image", "images")
"""Columns from which TRL reads images, besides the prompt."""
LARGEST_IMAGE = 256 << 20
"""The most bytes of an image file, about as many as the most pixels take without compression."""
IMAGE_TAG = "<image>"
"""Marks the place of an image in the texts of ms-swift's and LLaVA's rows, for every model."""
TEXT_BESIDE_IMAGES = (
    "idefics3",
    "smolvlm",
    "llava_next",
    "gemma3",
    "qwen2_vl",
    "qwen2_5_vl",
    "qwen3_5",
    "qwen3_5_moe",
)
"""Families that train a row of text in a batch with images as they train it alone. Seen: transformers 5.23.0."""
_USERS = ("human", "user")
_NO_ROLES = ("human", "gpt")
"""Roles of ShareGPT; chat templates know user and assistant."""
_MESSAGES_AS_TEXT = r"""\s*\[\s*\{\s*["'](role|content|from|value)["']\s*:"""
_SEEN_OR_HEARD = ("image", "image_url", "input_image", "video", "audio", "input_audio")


def wrong_prompt(prompt: object) -> str | None:
    """Why a run cannot use this prompt of the data, None if it can.

    Empty texts and messages without text are allowed: TRL trains on most of them.
    """
    if isinstance(prompt, str):
        return None
    if prompt is None:
        return "it is null"
    if not isinstance(prompt, list):
        return f"it is a {_kind(prompt)}, neither a string nor a list of messages"
    if not prompt:
        return "it is an empty list"
    return next((reason for message in prompt if (reason := _wrong_message(message))), None)


def doubtful_prompt(prompt: object, template: str | None) -> str | None:
    """Why a usable prompt is probably a mistake, None if it is not. template: the chat template if known."""
    if isinstance(prompt, str):
        return (
            "it is a list of messages written as text"
            if prompt[:9].lstrip()[:1] == "[" and re.match(_MESSAGES_AS_TEXT, prompt)
            else None
        )
    for message in prompt if isinstance(prompt, list) else []:
        role = message.get("role") if isinstance(message, Mapping) else None
        if role in _NO_ROLES and role not in (template or ""):
            return f"a message has the role {role}, but chat templates know user and assistant"
    return None


def _wrong_message(message: object) -> str | None:
    if not isinstance(message, Mapping):
        return f"it is a list with a {_kind(message)}, not of messages"
    missing = [name for name in ("role", "content") if name not in message]
    if is_share_gpt(message):
        return "its messages have `from` and `value` (ShareGPT), but TRL reads `role` and `content`"
    if missing and "tool_calls" not in message:
        return f"a message has no {missing[0]}, only {', '.join(sorted(map(str, message)))}"
    if has_picture(message):
        return "a message has an image, which only the trainer would see"
    return None


def has_picture(message: object) -> bool:
    """Whether a part of a message is an image, audio or video rather than text."""
    content = message.get("content") if isinstance(message, Mapping) else None
    parts = content if isinstance(content, list) else []
    return any(isinstance(part, Mapping) and part.get("type") in _SEEN_OR_HEARD for part in parts)


def is_share_gpt(message: object) -> bool:
    """Whether a message is in ShareGPT's format."""
    return isinstance(message, Mapping) and "role" not in message and {"from", "value"} <= message.keys()


def template_of(column: str, messages: object) -> str | None:
    """A template that makes the prompt from a column of messages; None unless one message is the user's.

    The messages are ShareGPT's, or answers follow the user's text. Without the IMAGE_TAG: images come before the text.
    """
    listed = [*messages] if isinstance(messages, Sequence) and not isinstance(messages, str) else []
    role, key = ("from", "value") if all(map(is_share_gpt, listed)) else ("role", "content")
    if not all(isinstance(turn, Mapping) and isinstance(turn.get(key), str) for turn in listed):
        return None
    asked = [index for index, turn in enumerate(listed) if turn.get(role) in _USERS]
    if len(asked) != 1 or (key == "content" and any(turn.get(role) not in (*_USERS, "assistant") for turn in listed)):
        return None
    without = f" | replace('{IMAGE_TAG}', '')" if IMAGE_TAG in listed[asked[0]][key] else ""
    return f"{{{{ {column}[{asked[0]}].{key}{without} }}}}"


def last_question_of(column: str, messages: Sequence[object]) -> str | None:
    """A template that makes the prompt from the user's last message, counted from the end; None without one."""
    listed = [turn for turn in messages if isinstance(turn, Mapping)]
    role, key = ("from", "value") if listed and all(map(is_share_gpt, listed)) else ("role", "content")
    asked = [index - len(messages) for index, turn in enumerate(listed) if turn.get(role) in _USERS and key in turn]
    return f"{{{{ {column}[{asked[-1]}].{key} }}}}" if asked else None


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "truth value"
    kinds = {dict: "map", int: "number", float: "number", str: "string", list: "list"}
    return "null" if value is None else kinds.get(type(value), type(value).__name__)
