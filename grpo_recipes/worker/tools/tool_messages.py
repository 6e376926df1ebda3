"""What trainer and tool process say to each other, and what of a tool's answer the policy is told."""

import json
import socket
import struct
from typing import Any

from grpo_recipes.worker.user_code.outcome import text_of

MOST_BYTES = 64 << 10
"""Of a result, as text; the policy is told that the rest was cut."""
_LENGTH = struct.Struct("!I")
_LONGEST = 64 << 20

Result = str | list[dict[str, Any]]


def told(result: object) -> Result:
    """A tool's result as TRL puts it into the conversation: blocks of text as they are, all else as text."""
    if isinstance(result, list) and result and all(map(_is_text_block, result)):
        blocks = [{"type": "text", "text": printable(each["text"])} for each in result]
        if sum(len(each["text"].encode()) for each in blocks) <= MOST_BYTES:
            return blocks
        return bounded("\n".join(each["text"] for each in blocks))
    return bounded(result if isinstance(result, str) else str(result))


def error_text(problem: BaseException) -> str:
    """The text of an exception as TRL tells the policy; its kind where it has none, or asks for the process's end."""
    kind = type(problem).__name__
    text = text_of(problem)
    return bounded((text or kind) if isinstance(problem, Exception) else f"{kind}: {text}".rstrip(": "))


def bounded(text: str) -> str:
    """The text in at most 64 KiB, with a word where it was cut."""
    text = printable(text)
    content = text.encode()
    if len(content) <= MOST_BYTES:
        return text
    note = f"\n[cut: {len(content)} bytes, of which {MOST_BYTES >> 10} KiB can be told]"
    return content[: MOST_BYTES - len(note.encode())].decode(errors="ignore") + note


def printable(text: str) -> str:
    """The text with a question mark for what no encoding has, such as half of a character."""
    return text.encode("utf-8", "replace").decode()


def _is_text_block(one: object) -> bool:
    return isinstance(one, dict) and one.get("type") == "text" and isinstance(one.get("text"), str)


def sent(connection: socket.socket, message: dict[str, Any]) -> None:
    """Sends one message. Raises TypeError or ValueError for what JSON cannot say, OSError where nobody listens."""
    content = json.dumps(message).encode()
    connection.sendall(_LENGTH.pack(len(content)) + content)


def received(connection: socket.socket) -> dict[str, Any] | None:
    """The next message, None where the other side is gone. Raises OSError, TimeoutError, ValueError."""
    head = _exactly(connection, _LENGTH.size)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > _LONGEST:
        raise ValueError(f"a message of {length} bytes")
    content = _exactly(connection, length)
    if content is None:
        return None
    message: dict[str, Any] = json.loads(content)
    return message


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(min(count - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)
