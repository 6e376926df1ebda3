"""Tokenizes the gold answers of a warm start, and orders them into batches.

A gold completion is what generation could have drawn: the prompt with its generation prompt and prefill, then the
answer's tokens and the token that ends the turn. An answer that a stop ends already gets no further token.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from grpo_recipes.contract.plan import Data, Plan
from grpo_recipes.worker._shared.prefill import Prefills
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.data.chosen_rows import shuffle
from grpo_recipes.worker.data.prompt_tokens import PromptTokens
from grpo_recipes.worker.data.templates import ANSWER

WHERE = "warm_start"
_AT_ONCE = 256
_SHOWN = 5


class GoldRow(NamedTuple):
    """The tokens of a prompt and of its gold completion."""

    prompt: list[int]
    completion: list[int]


class GoldRows(NamedTuple):
    """The rows of a warm start, in the order of its first pass. left_out: the others that were read, with the reason.

    seed: of the orders of further passes; None if they repeat the first one.
    """

    rows: list[GoldRow]
    left_out: list[str]
    seed: int | None

    def batch(self, step: int, count: int) -> list[GoldRow]:
        """Returns the rows of a step, counted from 0, of `count` rows each; a pass begins when all were drawn."""
        passes = [divmod(number, len(self.rows)) for number in range(step * count, (step + 1) * count)]
        return [self.rows[_order(len(self.rows), self.seed, number)[index]] for number, index in passes]

    def left_out_text(self) -> str:
        """Returns a line about the rows that are not trained, "" if all are."""
        if not self.left_out:
            return ""
        more = f", and {len(self.left_out) - _SHOWN} more" if len(self.left_out) > _SHOWN else ""
        rows = f"{len(self.left_out)} row{'s' * (len(self.left_out) != 1)}"
        return f"warm start without {rows}: {'; '.join(self.left_out[:_SHOWN])}{more}"


@cache
def _order(count: int, seed: int | None, number: int) -> Sequence[int]:
    """Returns the order of a pass; the first one has the order in which rows were drawn."""
    return range(count) if seed is None or number == 0 else _shuffled(count, seed, number)


def _shuffled(count: int, seed: int, number: int) -> list[int]:
    return shuffle(count, int.from_bytes(hashlib.sha256(f"{seed} {WHERE} {number}".encode()).digest()[:8]))


def with_answers(plan: Plan) -> Data:
    """Returns the plan's training data with the gold answers as a column."""
    assert plan.warm_start is not None
    return replace(plan.data, columns={**plan.data.columns, ANSWER: plan.warm_start.answer})


def passes_of(plan: Plan, rows: int) -> float:
    """Returns how often the steps of a warm start train each of so many rows."""
    assert plan.warm_start is not None
    return plan.warm_start.steps * rows_per_step(plan) / rows


def rows_per_step(plan: Plan) -> int:
    """Returns the rows of an optimizer step over all processes: the completions of one of GRPO."""
    return plan.batch.micro_batch * plan.batch.accumulation * plan.expect.world_size


def draw_gold_rows(rows: Any, plan: Plan, tokens: PromptTokens, ends: Any, prefills: Prefills, needed: int) -> GoldRows:
    """Returns as many rows as are needed, or all that can be trained. rows: prepared from `with_answers`.

    ends: as for gold_tokens. Raises Refused if there is none.
    """
    arguments = plan.arguments.GRPOConfig
    seed = int(arguments["seed"]) if arguments.get("shuffle_dataset", True) else None  # type: ignore[call-overload]
    order = range(len(rows)) if seed is None else _shuffled(len(rows), seed, 0)
    gold, left_out = list[GoldRow](), list[str]()
    for begin in range(0, len(order), _AT_ONCE):
        if len(gold) >= needed:
            break
        indices = list(order[begin : begin + _AT_ONCE])
        for index, row in zip(indices, gold_tokens(rows.select(indices), plan, tokens, ends, prefills), strict=True):
            if isinstance(row, GoldRow):
                gold.append(row)
            else:
                left_out.append(f"the answer of row {index + 1} {row}")
    made = GoldRows(gold[:needed], left_out, seed)
    if not gold:
        raise Refused.of(
            f"no gold answer of {WHERE}.answer can be trained",
            because=made.left_out_text().removeprefix("warm start "),
            fix=f"a larger generation.max_completion_length, or a different {WHERE}.answer",
        )
    return made


def gold_tokens(rows: Any, plan: Plan, tokens: PromptTokens, ends: Any, prefills: Prefills) -> list[GoldRow | str]:
    """Returns the tokens of each prepared row, or why generation could not give its gold answer.

    ends: what ends a completion, with tokens, tokenizer and first() of worker/ends/ends.py, which imports torch.
    """
    prompts, answers = list(rows["prompt"]), list(rows[ANSWER])
    limit = plan.shims.get("max_prompt_length", plan.arguments.GRPOConfig.get("max_prompt_length"))
    longest = int(plan.arguments.GRPOConfig["max_completion_length"])  # type: ignore[call-overload]
    drawn = plan.arguments.GRPOConfig.get("generation_kwargs")
    drawn = drawn if isinstance(drawn, dict) else {}
    least = drawn.get("min_new_tokens") or drawn.get("min_tokens") or 0
    ids = tokens.ids(prompts)
    end = next((token for token in tokens.after_answer(prompts[0]) if token in ends.tokens), None)
    end = int(ends.tokenizer.eos_token_id) if end is None else end
    texts = [_without_prefill(answer, prefill) for answer, prefill in zip(answers, prefills(prompts), strict=True)]
    completions = ends.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    made: list[GoldRow | str] = []
    for prompt, completion in zip(ids, completions, strict=True):
        stop = ends.first(completion)
        whole = list(completion) if stop == len(completion) and completion else [*completion, end]
        if not completion:
            made.append("is empty")
        elif stop is not None and stop < len(completion):
            made.append(f"ends after {stop} of its {len(completion)} tokens, with {_text(ends, completion[stop - 1])}")
        elif len(whole) > longest:
            made.append(f"has {len(whole)} tokens with its end, more than max_completion_length {longest}")
        elif len(whole) - 1 < least:
            made.append(f"has {len(whole) - 1} tokens before its end, fewer than min_tokens {least}")
        else:
            made.append(GoldRow(list(prompt if limit is None else prompt[-int(str(limit)) :]), whole))
    return made


def _text(ends: Any, token: int) -> str:
    return repr(ends.tokenizer.decode([token]))


def _without_prefill(answer: str, prefill: str) -> str:
    """Returns an answer without the beginning that the prompt already has."""
    return answer.removeprefix(prefill) if answer.startswith(prefill) else answer.removeprefix(prefill.strip())
