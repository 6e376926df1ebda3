"""Prompts and their completions fit into the model's context, and no prompt is cut.

What: the tokens of each prompt, with the chat template and the tools that it describes, compared with the model's
context (config.json, or else the tokenizer's limit) minus max_completion_length, and with generation.max_prompt_length.
What an environment's reset adds counts too; rows outside the sample get the longest addition within it.
Why: beyond its context a model with rotary positions writes increasingly poor text, a model with learned positions
fails with an index error, and vLLM refuses the prompt. Prompts are cut at the beginning, so the description of the
tools and the system prompt are lost first.
Fix: a smaller max_completion_length, a larger max_prompt_length, or data without the longest rows.
Example: 12 of 7473 prompts and their completions are longer than the model's context of 1024 tokens
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL006"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.data is None or not inputs.lengths:
        return
    yield from _context(inputs)
    limit = max_prompt_length(inputs)
    if limit is not None:
        yield from _cut(inputs, limit)


def max_prompt_length(inputs: Seen) -> int | None:
    """Returns the tokens kept of a prompt, None for all."""
    given = inputs.plan.arguments.GRPOConfig.get("max_prompt_length")
    shim = inputs.plan.shims.get("max_prompt_length")
    value = given if given is not None else shim
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def max_completion_length(inputs: Seen) -> int:
    """Returns the tokens after which a completion is cut."""
    value = inputs.plan.arguments.GRPOConfig.get("max_completion_length", 0)
    return value if isinstance(value, int) else 0


def _context(inputs: Seen) -> Iterator[Finding]:
    completion, limit, context = max_completion_length(inputs), max_prompt_length(inputs), inputs.context
    if context is None:
        return
    lengths = [min(length, limit) if limit is not None else length for length in inputs.lengths]
    longer = [index for index, length in zip(inputs.measured, lengths, strict=True) if length + completion > context]
    if longer:
        longest = max(lengths)
        left = context - longest
        yield warning(
            f"{len(longer)} of {len(lengths)} prompts and their completions are longer than the model's context of "
            f"{context} tokens",
            ("generation", "max_completion_length"),
            because=(
                f"the longest prompt has {longest} tokens, a completion up to {completion}",
                _rows(inputs, longer),
            ),
            fix=f"max_completion_length: {left}" if left > 0 else "leave the longest prompts out",
        )


def _cut(inputs: Seen, limit: int) -> Iterator[Finding]:
    longer = [index for index, length in zip(inputs.measured, inputs.lengths, strict=True) if length > limit]
    if longer:
        yield warning(
            f"{len(longer)} of {len(inputs.lengths)} prompts lose their beginning",
            ("generation", "max_prompt_length"),
            because=(
                f"the longest has {max(inputs.lengths)} tokens, the last {limit} are kept",
                "the tools are described at the beginning" if _describes_tools(inputs) else "",
                _rows(inputs, longer),
            ),
            fix=f"max_prompt_length: {max(inputs.lengths)}",
        )


def _describes_tools(inputs: Seen) -> bool:
    return inputs.tools is not None and bool(inputs.tools.schemas)


def _rows(inputs: Seen, indices: list[int]) -> str:
    assert inputs.data is not None
    return f"rows {join_items([inputs.data.number(index) for index in indices], 5)}"
