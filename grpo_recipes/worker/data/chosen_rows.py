"""Chooses and orders the training rows: shuffle_seed, filter, max_prompt_tokens and sort_by."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from grpo_recipes.contract.findings.finding import mistake, path_text
from grpo_recipes.contract.plan import Data, Plan
from grpo_recipes.contract.prompt_shape import TEXT_BESIDE_IMAGES, wrong_prompt
from grpo_recipes.worker._shared.inputs import IMAGES
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.data.images import refuse_written_tokens, rows_of_text, wrong_prompt_for_images
from grpo_recipes.worker.data.limits import TooMuch
from grpo_recipes.worker.data.prompt_tokens import PromptTokens
from grpo_recipes.worker.data.row_filter import TOKENS, RowFilter

EXAMPLES = 3
ROWS_AT_ONCE = 1000


@dataclass(slots=True)
class LeftOut:
    """The rows left out of the data, of `of` rows examined; rows after max_rows are not counted.

    by_filter, too_long: the count for each reason. examples: index and reason of the first ones.
    """

    of: int
    by_filter: int = 0
    too_long: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)

    def words(self, limit: int | None) -> str:
        """Returns how many rows are left out, and why. limit: in tokens."""
        reasons = [(self.by_filter, "by the filter"), (self.too_long, f"longer than {limit} tokens")]
        counts = ", ".join(f"{count} {reason}" for count, reason in reasons if count)
        return f"{self.by_filter + self.too_long} of {self.of} rows" + (f": {counts}" if counts else "")

    def note(self, reasons: Iterable[tuple[int, Callable[[], str]]]) -> None:
        """Keeps the first of these (index, function that returns the reason)."""
        for index, reason in reasons:
            if len(self.examples) == EXAMPLES:
                break
            self.examples.append((index, reason()))

    def note_lengths(self, long: Sequence[tuple[int, int]]) -> None:
        """Keeps the first of these (index, tokens), and half of the examples of the filter."""
        filtered = self.examples[: max(EXAMPLES - len(long), EXAMPLES // 2)] if long else self.examples
        more = [(index, f"{count} tokens") for index, count in long[: EXAMPLES - len(filtered)]]
        self.examples = [*filtered, *more]


def chooses(data: Data) -> bool:
    """Whether the plan filters, cuts or orders rows, beyond taking the first ones."""
    return any(each is not None for each in (data.filter, data.max_prompt_tokens, data.shuffle_seed, data.sort_by))


def refuse_tokens_of_images(plan: Plan, processing: Any, rows: Any, held_out: Sequence[Any]) -> None:
    """Raises Refused for a run's prompt with the image token in its text, with its row if known.

    rows: of the training. held_out: those of each set of the evaluation.
    """
    if plan.sources:
        refuse_written_tokens(processing, rows, "datasets", None)
    sets = () if plan.evaluation is None else plan.evaluation.sets
    whole = [] if plan.sources else [("dataset", plan.data, rows)]
    whole += [(evaluation.section, evaluation.data, of_set) for evaluation, of_set in zip(sets, held_out, strict=True)]
    for where, data, of_data in whole:
        refuse_written_tokens(processing, of_data, where, None if chooses(data) else lambda index: index + 1)


def refuse_rows_of_text(plan: Plan, family: str, rows: Any, held_out: Sequence[Any]) -> None:
    """Raises Refused for a row without an image if the run cannot train it. family: of the model, as its config says.

    rows, held_out: as in refuse_tokens_of_images.
    """
    sets = () if plan.evaluation is None else plan.evaluation.sets
    whole = [("datasets" if plan.sources else "dataset", plan.data, rows)]
    whole += [(evaluation.section, evaluation.data, of_set) for evaluation, of_set in zip(sets, held_out, strict=True)]
    for where, data, of_data in whole:
        is_known = not plan.sources and not chooses(data)
        refuse_text(plan, family, of_data, where, (lambda index: index + 1) if is_known else None)


def refuse_text(
    plan: Plan, family: str | None, rows: Any, where: str, number: Callable[[int], int] | None = None
) -> None:
    """Raises Refused for the first row without an image if the run cannot train it.

    number: as in refuse_written_tokens.
    """
    decided = plan.shims.get("text_rows", "the shim text_rows is not applied")
    if decided is True:
        decided = None if family in TEXT_BESIDE_IMAGES else f"nothing has shown that {family} trains them"
    if decided is None or not (places := rows_of_text(rows)):
        return
    row = "a row" if number is None else f"row {number(places[0])}"
    raise Refused.of(
        f"{where}: {row} has no image",
        because=[f"{len(places)} of {len(rows)} rows have none", str(decided)],
        fix="an image in each row; or leave rows without one out with a filter",
    )


def counts_tokens(data: Data) -> bool:
    """Whether choosing needs token counts. A filter that has the word only in a string also counts."""
    return data.max_prompt_tokens is not None or TOKENS in (data.filter or "")


def refuse_too_few(plan: Plan, rows: int) -> None:
    """Raises Refused if the chosen rows do not fill a generation: TRL would end after 0 steps without an error."""
    if chooses(plan.data) and rows < (needed := plan.batch.prompts):
        raise Refused.of(
            f"dataset: {rows} rows are left, and a generation has {needed} prompts",
            because="trl drops prompts that do not fill a generation, so the run would end after 0 steps",
            fix=f"prompts_per_step: {rows}, or less; or choose more rows",
        )


class Choice:
    """Chooses rows: `first` by the rows as loaded, then `last` by the prompts and columns.

    columns: of the data. is_done: whether `first` decides everything. A filter that reads only the row's own columns
    is applied first, so it can remove rows that templates cannot render. Both methods raise Refused.
    """

    def __init__(self, data: Data, where: str, columns: Sequence[str], count: int) -> None:
        self._data, self._where, self.left_out = data, where, LeftOut(count)
        self._name = data.path or "the data"
        own = None if data.filter is None else RowFilter(data, where, columns)
        is_last = own is not None and own.is_of_rendered
        self._first, self._last = None if is_last else own, own if is_last else None
        self._counts = data.max_prompt_tokens is not None or (own is not None and TOKENS in own.reads)
        self.is_done = self._last is None and not self._counts

    def first(self, rows: Any) -> Sequence[int]:
        """Returns the indices of rows that may stay, in order; the range of all if nothing restricts them."""
        count, seed = len(rows), self._data.shuffle_seed
        order: Sequence[int] = range(count) if seed is None else shuffle(count, seed)
        if self._first is not None:
            stays: list[bool] = []
            for table in (
                rows.select_columns(self._first.reads or rows.column_names[:1]).with_format("arrow").iter(ROWS_AT_ONCE)
            ):
                stays += self._filter(self._first, table, range(len(stays), len(stays) + len(table)), [])
            order = [index for index in order if stays[index]]
        return order[: self._data.max_rows] if self.is_done else order

    def last(self, rows: Any, places: Sequence[int], tokens: PromptTokens, **how: Any) -> tuple[Any, list[int]]:
        """Returns the rows that stay, and their indices. places: of the given rows. how: keywords for writing them."""
        chosen: list[int] = []
        long: list[tuple[int, int]] = []
        limit, most = self._data.max_prompt_tokens, self._data.max_rows

        def keep(table: pa.Table, indices: Sequence[int]) -> pa.Table:
            of_rows = [places[index] for index in indices]
            counts = self._count(table, of_rows, tokens) if self._counts else []
            stays = [True] * len(of_rows)
            if self._last is not None:
                stays = self._filter(self._last, table, of_rows, counts)
            fits = [limit is None or count <= limit for count in counts] or stays
            taken = [index for index, stay in enumerate(stays) if stay and fits[index]]
            behind = len(of_rows)
            if most is not None and len(taken) >= most - len(chosen):
                taken = taken[: most - len(chosen)]
                behind = taken[-1] + 1 if taken else 0
            dropped = [index for index in range(behind) if stays[index] and not fits[index]]
            long.extend((of_rows[index], counts[index]) for index in dropped)
            chosen.extend(of_rows[index] for index in taken)
            return table if len(taken) == len(table) else table.take(pa.array(taken, pa.int64()))

        made = rows.with_format("arrow").map(keep, with_indices=True, batched=True, features=rows.features, **how)
        if long and self._data.over == "error":
            self._refuse_long(long)
        self.left_out.too_long = len(long)
        self.left_out.note_lengths(long)
        return made.with_format(None), chosen

    def refuse_none(self) -> None:
        """Raises Refused with the reason why no row is left."""
        left = self.left_out
        key = "filter" if left.by_filter >= left.too_long else "max_prompt_tokens"
        raise Refused(
            mistake(
                f"{self._where}.{key}: none of the {left.of} rows of {self._name} is left",
                seen=[f"row {index + 1}: {reason}" for index, reason in left.examples],
                because=left.words(self._data.max_prompt_tokens),
                fix="a filter that is True for some rows" if key == "filter" else "a larger limit",
                path=(self._where, key),
            )
        )

    def _filter(self, own: RowFilter, table: pa.Table, places: Sequence[int], counts: Sequence[int]) -> list[bool]:
        rows = own.rows(table, counts)
        stays = own.answers(rows, places)
        self.left_out.by_filter += len(stays) - sum(stays)
        self.left_out.note(
            (index, lambda values=values: own.reason(values))  # type: ignore[misc]
            for index, stay, values in zip(places, stays, rows, strict=True)
            if not stay
        )
        return stays

    def _count(self, table: pa.Table, places: Sequence[int], tokens: PromptTokens) -> list[int]:
        """Returns the token count of each prompt. Raises Refused for one that the trainer could not tokenize either."""
        prompts, images = table["prompt"].to_pylist(), table[IMAGES] if self._data.images else None
        for row, prompt in zip(places, prompts, strict=True):
            reason = wrong_prompt(prompt) or (None if images is None else wrong_prompt_for_images(prompt))
            if reason:
                raise self._count_refusal(row, reason)

        def count_tokens(some: Sequence[int]) -> list[int]:
            texts = [prompts[index] for index in some]
            if images is None:
                return tokens.counts(texts)
            return tokens.counts(texts, (images[index].as_py() for index in some))

        try:
            return count_tokens(range(len(prompts)))
        except (Exception, TooMuch):  # count prompts singly, to find the one that raises, or if many are slow
            counts: list[int] = []
            for index, row in enumerate(places):
                try:
                    counts += count_tokens([index])
                except (Exception, TooMuch) as problem:
                    raise self._count_refusal(row, f"{type(problem).__name__}: {problem}") from problem
            return counts

    def _count_refusal(self, index: int, reason: str) -> Refused:
        what = f"{self._where}: {self._name}: the prompt of row {index + 1} cannot be counted in tokens"
        return Refused.of(what, because=reason)

    def _refuse_long(self, long: Sequence[tuple[int, int]]) -> None:
        (index, count), limit = min(long), self._data.max_prompt_tokens
        raise Refused(
            mistake(
                f"{self._where}.max_prompt_tokens: {len(long)} of {self.left_out.of} prompts are longer than {limit}",
                because=[f"the first is in row {index + 1} of {self._name}, with {count} tokens", "over is error"],
                fix=f"limit: {max(count for _, count in long)}; or over: drop",
                path=(self._where, "max_prompt_tokens"),
            )
        )


def sort_places(rows: Any, data: Data, where: str, places: Sequence[int] | None = None) -> list[int]:
    """Returns the rows' indices sorted by their column; equal values keep their order. places: of the rows in the data.

    Raises Refused if a row has no value, or if the values have no order.
    """
    assert data.sort_by is not None
    name, path = data.sort_by.removeprefix("-"), (where, "sort_by")

    def refusal(what: str, because: str, fix: str) -> Refused:
        return Refused(mistake(f"{path_text(path)}: {what}", because=because, fix=fix, path=path))

    if name not in rows.column_names:
        has = f"the rows have the columns {', '.join(sorted(rows.column_names))}"
        raise refusal(f"{data.path or 'the data'} has no column {name}", has, "sort_by: one of these columns")
    values: list[Any] = rows.select_columns(name).with_format(None)[:][name]  # not as stored, where JSON is text
    kinds = {int if isinstance(value, bool | int | float) else type(value) for value in values}
    without = [index for index, value in enumerate(values) if value is None or value != value]
    if without:
        row = (without[0] if places is None else places[without[0]]) + 1
        what = f"{len(without)} of {len(values)} rows of {data.path or 'the data'} have no {name}"
        because = f"row {row} is the first, and cannot be sorted"
        raise refusal(what, because, f'filter: "{{{{ {name} is not none }}}}" leaves them out')
    if kinds not in ({int}, {str}):
        what = f"column {name} of {data.path or 'the data'} cannot be sorted"
        names = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise refusal(what, f"its values are {names}", "a column of numbers or of strings")
    return sorted(range(len(values)), key=values.__getitem__, reverse=data.sort_by.startswith("-"))


def shuffle(count: int, seed: int) -> list[int]:
    """Returns range(count) in an order that depends only on the seed.

    Python guarantees the numbers of random() for a seed in all releases, but not the order of shuffle().
    """
    draw = random.Random(seed).random
    keys = [draw() for _ in range(count)]
    return sorted(range(count), key=keys.__getitem__)
