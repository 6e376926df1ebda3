"""Ends completions at the recipe's stops, and corrects everything that TRL derives from their ends.

Defect: with transformers, TRL does not support stops. It passes no tokenizer to generate, so stop_strings raises, and
it recognizes only the tokenizer's end token (since 1.14.2 also those that the model declares). Padding after any
other end is trained as if the policy had written it, lengths are too large, and the completion counts as truncated.
vLLM ends the completion at the stop; TRL still counts it as truncated, and drops it with mask_truncated_completions. If
vLLM's tokenizer lacks the token, it never sees the stop's text. Since trl 0.24, a completion that is cut after a PAD
that the policy wrote counts as ended, and mask_truncated_completions trains it.
Seen: every release from trl 0.14.0 to 1.16.0; with vLLM run on 1.16.0, read in the source of the others.
Remove when: TRL takes stop strings and stop ids, and masks after them.
"""

from collections.abc import Callable
from typing import Any, Self

import torch

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import stop_vllm_at
from grpo_recipes.worker.ends.ends import Ends, ends_of, tokenizer_of


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Makes transformers generate up to the plan's stops, and TRL recognize them as ends."""
    return end_completions(trainer, ends_of(trainer, plan))


def end_completions(trainer: Any, ends: Ends) -> str:
    """Makes the trainer generate up to a completion's end, and ignore everything after it.

    Returns in words how many tokens and texts end a completion.
    """
    if trainer.args.use_vllm:
        _stop_vllm_by_id(trainer, ends)
    else:
        _generate_until(trainer, ends)
    if trainer.seams.has("turn is generated"):
        _cut_lists(trainer, ends)
    else:
        _compare_with(trainer, EndToken(tokenizer_of(trainer).eos_token_id, ends))
    return f"{len(ends.tokens)} tokens and {len(ends.texts)} texts end a completion"


def _generate_until(trainer: Any, ends: Ends) -> None:
    # Continuous batching of transformers 4 compares with a number.
    trainer.generation_config.eos_token_id = list(ends.tokens) if len(ends.tokens) > 1 else ends.tokens[0]
    if not ends.texts:
        return

    def generate_until(generate: Callable[..., Any], *given: Any, **named: Any) -> Any:
        return generate(*given, **{"stopping_criteria": ends.criteria(), **named})

    trainer.seams.change("policy generates", "stops", generate_until)


def _stop_vllm_by_id(trainer: Any, ends: Ends) -> None:
    """Passes vLLM the tokens that complete a stop string, since it searches only its own tokenizer's texts."""
    # vLLM refuses ids beyond its model's rows, which cannot be generated either.
    rows = trainer.model.config.get_text_config().vocab_size
    ids = [token for token in ends.added_tokens_with_text() if token < rows and token not in ends.tokens]
    if ids:
        stop_vllm_at(trainer, ids)


def _cut_lists(trainer: Any, ends: Ends) -> None:
    """Cuts completions for releases that keep them as token lists and derive masks from their lengths."""
    index = 0 if trainer.seams.does("turns take tokens") else 1
    tokenizer = tokenizer_of(trainer)
    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id

    def generate_and_cut(generate: Callable[..., Any], *given: Any, **named: Any) -> Any:
        answer = list(generate(*given, **named))
        counts = [ends.first(ids) for ids in answer[index]]
        answer[index] = [_cut(ids, count, end, pad) for ids, count in zip(answer[index], counts, strict=True)]
        if answer[index + 1] is not None:  # vLLM's log-probabilities, one per token
            answer[index + 1] = [row[:count] for row, count in zip(answer[index + 1], counts, strict=True)]
        return tuple(answer)

    def judge_plain(judge: Callable[..., Any], inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
        return judge(inputs, prompts, completions, [[*map(int, row)] for row in ids])

    trainer.seams.change("turn is generated", "ends", generate_and_cut)
    trainer.seams.change("rewards are given", "plain tokens", judge_plain)


def _cut(ids: list[int], count: int | None, end: int, pad: int) -> list[int]:
    # TRL cuts a turn that follows a tool once more, so that any PAD can become its last token.
    written = [WrittenPad(pad, None) if token == pad else token for token in ids[:count]]
    return written if count is None else [*written[:-1], LastToken(ids[count - 1], end)]


class _Token(int):
    """An int with an attached value; copied or sent to another process it is a plain int."""

    more: Any

    def __new__(cls, token: int, more: Any) -> Self:
        made = super().__new__(cls, token)
        made.more = more
        return made

    def __reduce__(self) -> Any:
        return int, (int(self),)


class LastToken(_Token):
    """The token that ended a completion. It also equals the tokenizer's end token, `more`.

    TRL counts a completion as truncated if its last token equals no end token.
    """

    def __eq__(self, other: object) -> bool:
        return bool(int(self) == other or self.more == other)

    def __hash__(self) -> int:
        return hash(int(self))


class WrittenPad(_Token):
    """A PAD that the policy wrote before any end. It equals no token, since TRL takes PAD for an end."""

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return hash(int(self))


def _compare_with(trainer: Any, end: "EndToken") -> None:
    """Patches releases that compare a matrix of completions with the trainer's or the tokenizer's end token."""
    if hasattr(trainer, "eos_token_id"):
        trainer.eos_token_id = end
        return
    tokenizer = trainer.processing_class
    kind = type(tokenizer)
    tokenizer.__class__ = type(kind.__name__, (kind,), {"eos_token_id": property(lambda _: end)})


class EndToken(_Token):
    """The tokenizer's end token; comparing a matrix of completions with it returns where each row ends.

    more: the Ends of a row.
    """

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Handles operations between a tensor and an end token."""
        if function is torch.Tensor.eq and isinstance(args[1], cls) and args[0].ndim == 2:
            return args[1]._places(args[0])
        plain = {name: int(value) if isinstance(value, cls) else value for name, value in (kwargs or {}).items()}
        return function(*(int(value) if isinstance(value, cls) else value for value in args), **plain)

    def _places(self, completions: Any) -> Any:
        """Returns (B, C) bool: true at the first token that ends each row."""
        counts = [self.more.first(row) for row in completions.tolist()]
        places = torch.zeros_like(completions, dtype=torch.bool)
        for row, count in zip(places, counts, strict=True):
            if count is not None:
                row[count - 1] = True
        return places
