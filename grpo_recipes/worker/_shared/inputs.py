"""Shows the inputs of each loss (prompts, completions and masks of a micro-batch) to everything that watches them."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

Listener = Callable[[dict[str, Any]], None]


def watch_inputs(trainer: Any, listener: Listener) -> Callable[[], None]:
    """Calls `listener` with the inputs of each training micro-batch, and returns a function that stops it.

    Listeners get them as TRL has prepared them, (B, ...) on the device, before the loss. Listeners are never called on
    trl 0.14, which generates its completions inside the loss.
    """

    def look(inputs: Any, *_: Any, **__: Any) -> None:
        if trainer.model.training and isinstance(inputs, dict) and "completion_mask" in inputs:
            listener(inputs)

    stop: Callable[[], None] = trainer.seams.observe("batch is prepared", "inputs of a loss", look)
    return stop


class Clock:
    """Adds up the time spent in its with blocks. seconds: the total since it was last reset."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Times a with block, also one that raises."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - began


def prompt_text(prompt: Any) -> str:
    """Returns the text of a prompt or completion for a reader: the string, or the last message."""
    content = prompt if isinstance(prompt, str) else prompt[-1].get("content") or ""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def answer_text(completion: Any) -> str:
    """Returns the completion for a reader: the model's last message, not a tool's reply."""
    if isinstance(completion, str):
        return completion
    return prompt_text([message for message in completion if message.get("role") != "tool"] or [{}])


IMAGES = "images"
"""The images' column of prepared rows, as TRL and the rewards name it: in each row, a list of bytes and path."""


def decode_images(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a prepared row with its images as RGB Pillow images."""
    if IMAGES not in row:
        return dict(row)
    from datasets import Image

    kind = Image(mode="RGB")
    return {**row, IMAGES: [kind.decode_example(image) for image in row[IMAGES]]}


def prompt_with_images(prompt: Any, images: Sequence[Any] | None) -> Any:
    """Returns the prompt with its images before the first user message's text, as TRL passes it to a processor.

    Source: trl 0.24.0 to 1.16.0 data_utils.py (prepare_multimodal_messages).
    """
    if images is None:
        return prompt
    messages, left = [], list(images)
    for message in prompt:
        shown = left if message["role"] == "user" else []
        left = [] if message["role"] == "user" else left
        parts = [{"type": "image", "image": image} for image in shown]
        messages.append({**message, "content": [*parts, {"type": "text", "text": message["content"]}]})
    return messages
