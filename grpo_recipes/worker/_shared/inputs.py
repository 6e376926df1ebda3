"""Shows the inputs of each loss (prompts, completions and masks of a micro-batch) to everything that watches them."""

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from grpo_recipes.contract.findings.findings_text import Mistake


@contextmanager
def replaced(owner: Any, name: str, new: Any) -> Iterator[None]:
    """Replaces an attribute inside a with block, then restores it unless it has been replaced again since."""
    missing = object()
    had = vars(owner).get(name, missing)
    setattr(owner, name, new)
    try:
        yield
    finally:
        if vars(owner).get(name) is new:
            if had is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, had)


Listener = Callable[[dict[str, Any]], None]


def watch_inputs(trainer: Any, listener: Listener) -> Callable[[], None]:
    """Calls `listener` with the inputs of each training micro-batch, and returns a function that stops it.

    Listeners get them as TRL has prepared them, (B, ...) on the device, before the loss. When the last listener stops,
    the trainer is restored. Listeners are never called on trl 0.14, which generates its completions inside the loss.
    """
    watched = trainer.__dict__.get("_prepare_inputs")
    if not isinstance(watched, _WatchedInputs):
        watched = _WatchedInputs(trainer)
    watched.listeners.append(listener)
    return lambda: watched.forget(listener)


class _WatchedInputs:
    """Replaces `trainer._prepare_inputs` while there are listeners."""

    def __init__(self, trainer: Any) -> None:
        self.listeners: list[Listener] = []
        self._trainer, self._prepare = trainer, trainer._prepare_inputs
        self._standing = ExitStack()
        self._standing.enter_context(replaced(trainer, "_prepare_inputs", self))

    def __call__(self, *given: Any, **named: Any) -> Any:
        inputs = self._prepare(*given, **named)
        if self._trainer.model.training and isinstance(inputs, dict) and "completion_mask" in inputs:
            for listener in tuple(self.listeners):
                listener(inputs)
        return inputs

    def forget(self, listener: Listener) -> None:
        if listener in self.listeners:
            self.listeners.remove(listener)
        if not self.listeners:
            self._standing.close()


class Refused(Mistake):
    """A check stops the run. The message says what differs, why, and how to fix it. The worker exits with 3."""


class Clock:
    """Adds up the time spent in the methods that it wraps. seconds: the total since it was last reset."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the method with its calls timed, including those that raise."""

        @functools.wraps(method)
        def timed(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return method(*given, **named)
            finally:
                self.seconds += time.perf_counter() - began

        return timed


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


# Images in rows.


IMAGES = "images"
"""The images' column of prepared rows, as TRL and the rewards name it: in each row, a list of bytes and path."""


def decoded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a prepared row with its images as RGB Pillow images."""
    if IMAGES not in row:
        return dict(row)
    from datasets import Image

    kind = Image(mode="RGB")
    return {**row, IMAGES: [kind.decode_example(image) for image in row[IMAGES]]}


def shown_with(prompt: Any, images: Sequence[Any] | None) -> Any:
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
