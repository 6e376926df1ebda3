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

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import listed
from grpo_recipes.worker.preflight._shared.reward_seen import fault
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL006"


def check(seen: Seen) -> Iterator[Finding]:
    if seen.data is None or not seen.lengths:
        return
    yield from _context(seen)
    kept = max_prompt_length(seen)
    if kept is not None:
        yield from _cut(seen, kept)


def max_prompt_length(seen: Seen) -> int | None:
    """Returns the tokens kept of a prompt, None for all."""
    given = seen.plan.arguments.GRPOConfig.get("max_prompt_length")
    shim = seen.plan.shims.get("max_prompt_length")
    value = given if given is not None else shim
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def max_completion_length(seen: Seen) -> int:
    """Returns the tokens after which a completion is cut."""
    value = seen.plan.arguments.GRPOConfig.get("max_completion_length", 0)
    return value if isinstance(value, int) else 0


def _context(seen: Seen) -> Iterator[Finding]:
    completion, kept = max_completion_length(seen), max_prompt_length(seen)
    if seen.context is None:
        return
    lengths = [min(length, kept) if kept is not None else length for length in seen.lengths]
    longer = [place for place, length in zip(seen.measured, lengths, strict=True) if length + completion > seen.context]
    if longer:
        longest = max(lengths)
        left = seen.context - longest
        yield fault(
            "warning",
            f"{len(longer)} of {len(lengths)} prompts and their completions are longer than the model's context of "
            f"{seen.context} tokens",
            ("generation", "max_completion_length"),
            because=(
                f"the longest prompt has {longest} tokens, a completion up to {completion}",
                _rows(seen, longer),
            ),
            fix=f"max_completion_length: {left}" if left > 0 else "leave the longest prompts out",
        )


def _cut(seen: Seen, kept: int) -> Iterator[Finding]:
    longer = [place for place, length in zip(seen.measured, seen.lengths, strict=True) if length > kept]
    if longer:
        yield fault(
            "warning",
            f"{len(longer)} of {len(seen.lengths)} prompts lose their beginning",
            ("generation", "max_prompt_length"),
            because=(
                f"the longest has {max(seen.lengths)} tokens, the last {kept} are kept",
                *(("the tools are described at the beginning",) if _describes_tools(seen) else ()),
                _rows(seen, longer),
            ),
            fix=f"max_prompt_length: {max(seen.lengths)}",
        )


def _describes_tools(seen: Seen) -> bool:
    return seen.tools is not None and bool(seen.tools.schemas)


def _rows(seen: Seen, places: list[int]) -> str:
    assert seen.data is not None
    return f"rows {listed([seen.data.number(place) for place in places], 5)}"
