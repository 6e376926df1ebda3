"""Counts prompts in tokens as the trainer tokenizes them: with chat template, tools and images, before truncation."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.inputs import IMAGES, decode_images, prompt_with_images
from grpo_recipes.worker.data.limits import limit_block

_ANSWER = "an answer of this conversation"


class PromptTokens:
    """Counts the tokens of prompts. load: returns the trainer's tokenizer or processor, called at the first count.

    tools: what the chat template describes, functions or their schemas. of: identifies all of these.
    """

    def __init__(self, plan: Plan, load: Callable[[], Any], tools: Callable[[], Iterable[Any]]) -> None:
        self._load, self._tools = load, tools
        given = plan.arguments.GRPOConfig.get("chat_template_kwargs")
        self._given = dict(given) if isinstance(given, dict) else {}
        versions = f"{version('transformers')} {version('tokenizers')}"
        self.of = f"{plan.model} {plan.tokenizer} {plan.tools} {self._given} {versions}"

    def counts(self, prompts: Sequence[Any], images: Iterable[Any] | None = None) -> list[int]:
        """Returns the token counts of prompts of one kind.

        Plain texts get special tokens; rendered conversations already have them. images: of each prompt, as in prepared
        rows; the processor's tokens for them are counted.
        """
        if images is not None:
            _, render, keywords = self._ready
            how = {"tokenize": True, "add_generation_prompt": True, "return_dict": True, **keywords}
            each = zip(prompts, map(_decode, images), strict=True)
            return [len(render(conversation=[prompt_with_images(*pair)], **how)["input_ids"][0]) for pair in each]
        return list(map(len, self.ids(prompts)))

    def ids(self, prompts: Sequence[Any]) -> list[list[int]]:
        """Returns the tokens of prompts of one kind, without images."""
        tokenizer, render, keywords = self._ready
        is_messages = isinstance(prompts[0], list)
        with limit_block():
            texts = render(prompts, tokenize=False, add_generation_prompt=True, **keywords) if is_messages else prompts
        how = {
            "return_attention_mask": False,
            "verbose": False,
        }  # no warning about prompts that are removed for their length
        ids: list[list[int]] = tokenizer(list(texts), add_special_tokens=not is_messages, **how)["input_ids"]
        return ids

    def after_answer(self, prompt: Any) -> list[int]:
        """Returns the tokens that the chat template writes after an answer; [] for a prompt that is a plain text."""
        tokenizer, render, keywords = self._ready
        if not isinstance(prompt, list):
            return []
        with limit_block():
            text = render([*prompt, {"role": "assistant", "content": _ANSWER}], tokenize=False, **keywords)
        ids: list[int] = tokenizer(text.rpartition(_ANSWER)[2], add_special_tokens=False)["input_ids"]
        return ids

    @cached_property
    def _ready(self) -> tuple[Any, Callable[..., Any], dict[str, Any]]:
        from transformers.utils import get_json_schema

        processing = self._load()
        tokenizer = getattr(processing, "tokenizer", processing)
        schemas = [tool if isinstance(tool, dict) else get_json_schema(tool) for tool in self._tools()]
        own = training_template(tokenizer) if schemas else None
        keywords: dict[str, Any] = {"tools": schemas} if schemas else {}
        keywords |= {} if own is None else {"chat_template": own}
        return tokenizer, processing.apply_chat_template, {**keywords, **self._given}


def _decode(images: Any) -> Any:
    return decode_images({IMAGES: images})[IMAGES]


def training_template(tokenizer: Any) -> str | None:
    """Returns this TRL's training template for the tokenizer, None to use its own.

    Raises what TRL raises for an unknown template. Source: trl's grpo_trainer.py (__init__).
    """
    from trl import chat_template_utils as trl

    if tokenizer.chat_template is None or trl.is_chat_template_prefix_preserving(tokenizer):
        return None
    template: str | None = trl.get_training_chat_template(tokenizer)
    return template
