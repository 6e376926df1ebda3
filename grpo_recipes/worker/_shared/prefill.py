"""Finds the part of an answer that the prompt already contains, such as a chat template's `<think>`.

TRL gives rewards only what the model wrote after it. Shipped rewards judge both texts, with it and without, and the
better score counts; a user's function gets TRL's completions unchanged, and the prefills if it names PREFILLS.
"""

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.prompt_shape import PREFILLS

# The shipped rewards that measure what the model wrote, and one that runs it: a prefill matters only if it is code.
_OF_THE_MODEL = ("completion_length", "language_consistency", "repetition_penalty", "soft_overlong_punishment")
_RUNS, _FENCE = "code_tests", "```"
# Some templates write an empty thinking block before each answer of the history, too; it is not the turn's header.
_THINKING = re.compile(r"\s*<(?:think|thought|reason)\w*>")
_OPEN_TAG = re.compile(r"<([A-Za-z_]\w*)>\s*$")
_QUESTION, _ANSWER = "a question of this conversation", "an answer of this conversation"


Prefills = Callable[[Sequence[Any]], list[str]]
"""Returns the prefill of each of some prompts."""


class Prefill:
    """Returns the beginning of the answer in each prompt, "" if the model writes all of it.

    load: returns the tokenizer or processor, called for the first conversation. keywords: of its chat template.
    """

    def __init__(self, load: Callable[[], Any], keywords: dict[str, Any]) -> None:
        self._load, self._keywords = load, keywords
        self._by_system: dict[str, str] = {}

    @classmethod
    def of_plan(cls, plan: Plan, load: Callable[[], Any]) -> "Prefill":
        """Returns it with the plan's variables for the chat template."""
        given = plan.arguments.GRPOConfig.get("chat_template_kwargs")
        return cls(load, dict(given) if isinstance(given, dict) else {})

    def __call__(self, prompts: Sequence[Any]) -> list[str]:
        return [
            self._of_messages(prompt) if isinstance(prompt, list) and prompt else _of_text(str(prompt or ""))
            for prompt in prompts
        ]

    def _of_messages(self, prompt: Any) -> str:
        """Returns the prefill of a conversation, which depends on nothing in it but system messages."""
        system = [message for message in prompt if isinstance(message, dict) and message.get("role") == "system"]
        key = repr(system)
        if key not in self._by_system:
            self._by_system[key] = self._render_opening(system)
        return self._by_system[key]

    def _render_opening(self, system: list[Any]) -> str:
        """Returns what the template writes after the header of the assistant's turn."""
        from jinja2 import TemplateError

        processing = self._load()
        if getattr(processing, "chat_template", None) is None:
            return ""
        question, answer = (
            [{"type": "text", "text": text}] if hasattr(processing, "image_processor") else text
            for text in (_QUESTION, _ANSWER)
        )
        asked = [*system, {"role": "user", "content": question}]
        how = {"tokenize": False, **self._keywords}
        try:
            begun = processing.apply_chat_template(asked, **{**how, "add_generation_prompt": True})
            answered = processing.apply_chat_template([*asked, {"role": "assistant", "content": answer}], **how)
        except TemplateError:  # a template that takes no such conversation, or not these system messages
            return ""
        header = _THINKING.split(answered.partition(_QUESTION)[2].partition(_ANSWER)[0])[0].rstrip()
        text = str(begun.partition(_QUESTION)[2])
        return text.removeprefix(header).lstrip() if header and text.startswith(header) else ""


def _of_text(prompt: str) -> str:
    """Returns the tag that a plain prompt ends with, which the model has to close."""
    match = _OPEN_TAG.search(prompt)
    return prompt[match.start() :] if match else ""


def prepend_prefill(completion: Any, prefill: str) -> Any:
    """Returns a completion behind its prefill, in each turn of the model whose text TRL did not take apart."""
    if isinstance(completion, str):
        return prefill + completion
    return [
        {**message, "content": prefill + message["content"]}
        if message.get("role") == "assistant"
        and isinstance(message.get("content"), str)
        and "reasoning_content" not in message
        else message
        for message in completion
    ]


def with_prefills(function: Callable[..., Any], shipped: str | None, prefill: Prefills | None) -> Callable[..., Any]:
    """Returns a reward function that knows what its prompts begin. shipped: the name of a shipped one, None else."""
    if shipped in _OF_THE_MODEL or (shipped is None and PREFILLS not in _parameters(function)):
        return function

    def of(prompts: Sequence[Any] | None, count: int) -> list[str]:
        return [""] * count if prefill is None or prompts is None else prefill(prompts)

    @functools.wraps(function)
    def pass_prefills(**given: Any) -> Any:  # the awaitable of an asynchronous function
        given.setdefault(PREFILLS, of(given.get("prompts"), len(given["completions"])))
        return function(**given)

    @functools.wraps(function)
    def judge_whole(**given: Any) -> Any:
        completions = given["completions"]
        prefills = of(given.get("prompts"), len(completions))
        whole = {**given, "completions": list(map(prepend_prefill, completions, prefills))}
        if not any(_FENCE in text if shipped == _RUNS else text for text in prefills):
            return function(**given)
        if shipped == _RUNS:
            return function(**whole)
        quiet = {name: value for name, value in whole.items() if name not in ("log_extra", "log_metric")}
        return list(map(_better, function(**given), function(**quiet)))

    return pass_prefills if shipped is None else judge_whole


def _parameters(function: Callable[..., Any]) -> Sequence[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # a function without a signature, such as one in C
        return []


def _better(first: float | None, other: float | None) -> float | None:
    return max((value for value in (first, other) if value is not None), default=None)
