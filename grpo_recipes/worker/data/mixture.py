"""Returns the training's rows: one data set, or a mixture in the order of the whole run.

The order of a mixture depends only on the recipe and the number of rows of each source: not on processes, releases or
checkpoints, and a longer run starts with it. A source with share s is drawn for the k-th time at (k + 1/2) / s, so
every stretch of the order has the shares to within one prompt. A source's rows are reshuffled whenever all were drawn.
Further prompts, for groups that are redrawn, are a second order of this kind, in which a generation does not repeat
its rows while the source has others.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from datasets import Dataset, concatenate_datasets

from grpo_recipes.contract.plan import Data, Plan
from grpo_recipes.worker._shared.inputs import IMAGES
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.data.chosen_rows import refuse_too_few, shuffle
from grpo_recipes.worker.data.dataset import prepare_rows
from grpo_recipes.worker.data.images import refuse_no_images

MAIN, FURTHER = "", "further"


class Generations(NamedTuple):
    """The generations of a run. firsts: the first optimizer step of each, counted from 1. prompts: per generation."""

    firsts: Sequence[int]
    prompts: int


def training_rows(plan: Plan, cache: Path, rank: int, facts: dict[str, object], **how: Any) -> tuple[Any, str]:
    """Returns the training rows, from prepare_rows of each source, and a line about them or "".

    A mixture has one row per prompt of the run, in order, followed by its further prompts.
    """
    datasets = [prepare_rows(data, where, cache, rank, facts, **how) for where, data in plan.training_data.items()]
    if plan.sources:
        return mix(plan, datasets)
    refuse_no_images([plan.data], datasets, "dataset")
    refuse_too_few(plan, len(datasets[0]))
    count = facts.get("dataset.kept.rows")
    return datasets[0], "" if count is None else f"{count} of {facts['dataset.rows']} rows are trained on"


def mix(plan: Plan, datasets: Sequence[Any]) -> tuple[Dataset, str]:
    """Returns the rows of a mixture, and a line with the prompts per source. datasets: the rows of each source."""
    rows, sizes = together(plan.sources, datasets), [len(dataset) for dataset in datasets]
    order = draw_rows(plan, sizes, MAIN)
    counts = ", ".join(
        f"{count} of the {size} rows of {data.source_name}"
        for data, count, size in zip(plan.sources, count_prompts(plan, sizes), sizes, strict=True)
    )
    places = np.concatenate([order, draw_rows(plan, sizes, FURTHER)]) if plan.resample_groups else order
    return rows.select(places), f"{len(order)} prompts are drawn: {counts}"


def count_prompts(plan: Plan, sizes: Sequence[int]) -> list[int]:
    """Returns how many of the run's prompts each source has."""
    sources = _sources(plan.sources, sizes, *generations_of(plan))
    return [int((sources == index).sum()) for index in range(len(sizes))]


def prompts_of_run(plan: Plan) -> int:
    """Returns the number of a mixture's prompts before its further prompts."""
    generations = generations_of(plan)
    return len(generations.firsts) * generations.prompts


def generations_of(plan: Plan) -> Generations:
    """Returns the generations of a run with max_steps."""
    steps, iterations = (plan.arguments.GRPOConfig.get(name, 1) for name in ("max_steps", "num_iterations"))
    assert isinstance(steps, int) and isinstance(iterations, int)  # a rule ensures this
    fed, of_step = plan.batch.steps_per_generation * iterations, plan.batch.accumulation
    count = math.ceil(steps * of_step / fed)
    return Generations([generation * fed // of_step + 1 for generation in range(count)], plan.batch.prompts)


def draw_rows(plan: Plan, sizes: Sequence[int], kind: str) -> Any:
    """Returns the drawn rows as indices into all sources concatenated, in order. kind: MAIN or FURTHER."""
    firsts, prompts = generations_of(plan)
    prompts *= plan.resample_groups if kind == FURTHER else 1
    sources = _sources(plan.sources, sizes, firsts, prompts)
    seed, starts, order = plan.arguments.GRPOConfig.get("seed", 42), np.cumsum([0, *sizes]), np.empty_like(sources)
    for index, (data, size) in enumerate(zip(plan.sources, sizes, strict=True)):
        own = np.flatnonzero(sources == index)
        order[own] = starts[index] + _rows(data, size, len(own), f"{seed} {data.source_name} {kind}")
    if kind == FURTHER:
        each, own = order.reshape(len(firsts), -1), draw_rows(plan, sizes, MAIN).reshape(len(firsts), -1)
        for of_generation, taken, of in zip(each, map(set, own.tolist()), sources.reshape(each.shape), strict=True):
            _set_apart(of_generation, taken, [range(starts[source], starts[source + 1]) for source in of.tolist()])
    return order


def _set_apart(places: Any, taken: set[int], sources: Sequence[range]) -> None:
    """Replaces each row that is taken by the next free row of its source, if there is one."""
    for index, rows in enumerate(sources):
        row = int(places[index])
        if row in taken:
            ahead = chain(range(row + 1, rows.stop), range(rows.start, row))
            places[index] = row = next((candidate for candidate in ahead if candidate not in taken), row)
        taken.add(row)


def _sources(sources: Sequence[Data], sizes: Sequence[int], firsts: Sequence[int], prompts: int) -> Any:
    """Returns each prompt's source, in stretches in which the same sources are active."""
    stretches: list[tuple[tuple[int, ...], int]] = []
    for first in firsts:
        active = tuple(index for index, data in enumerate(sources) if data.from_step <= first)
        if stretches and stretches[-1][0] == active:
            stretches[-1] = (active, stretches[-1][1] + prompts)
        else:
            stretches.append((active, prompts))
    return np.concatenate([_stretch(sources, sizes, active, count) for active, count in stretches])


def _stretch(sources: Sequence[Data], sizes: Sequence[int], active: Sequence[int], count: int) -> Any:
    parts = [weight if (weight := sources[index].weight) is not None else float(sizes[index]) for index in active]
    times, of = [], []
    for index, part in zip(active, parts, strict=True):
        share = part / math.fsum(parts)
        most = math.ceil(count * share) + len(active) + 1
        times.append((np.arange(most) + 0.5) / share)
        of.append(np.full(most, index))
    own = np.concatenate(of)
    return own[np.lexsort((own, np.concatenate(times)))[:count]]


def _rows(data: Data, size: int, count: int, seed: str) -> Any:
    """Returns the rows of one source for `count` draws."""

    def passes() -> Iterator[Sequence[int]]:
        for number in range(math.ceil(count / size)):
            digest = hashlib.sha256(f"{seed} {number}".encode()).digest()
            yield range(size) if data.in_order else shuffle(size, int.from_bytes(digest[:8]))

    return np.array([row for rows in passes() for row in rows][:count], dtype=np.int64)


def together(sources: Sequence[Data], datasets: Sequence[Any]) -> Dataset:
    """Returns all sources' rows concatenated. Raises Refused if a column's types differ."""
    if len({IMAGES in rows.column_names for rows in datasets}) > 1:
        raise Refused.of(
            "datasets: some sources have images and others do not",
            because="the sources of a mixture have the same columns; a row without an image has null in its column",
            fix="dataset.images of each source, null in the rows that have no image",
        )
    refuse_no_images(sources, datasets, "datasets")
    known: dict[str, tuple[Data, Any]] = {}
    for data, rows in zip(sources, datasets, strict=True):
        for name, feature in rows.features.items():
            first, other = known.setdefault(name, (data, feature))
            if feature != other and "null" not in (getattr(feature, "dtype", ""), getattr(other, "dtype", "")):
                _refuse_kinds(name, (first, other), (data, feature))
            known[name] = (data, feature) if getattr(other, "dtype", "") == "null" else known[name]
    return concatenate_datasets(list(datasets))


def _refuse_kinds(name: str, first: tuple[Data, Any], other: tuple[Data, Any]) -> None:
    if name == "prompt":
        raise Refused.of(
            f"datasets: the prompts of {first[0].source_name} and {other[0].source_name} have different types",
            because=[f"{data.source_name}: {_kind(feature)}" for data, feature in (first, other)],
            fix="a prompt template of the same prompt_format for both",
        )
    raise Refused.of(
        f"datasets: column {name} is {_kind(first[1])} in {first[0].source_name}, {_kind(other[1])} in "
        f"{other[0].source_name}",
        because="a column needs values of one type in all rows",
        fix=f'columns: {{{name}: "{{{{ {name} }}}}"}} in both makes it text',
    )


def _kind(feature: Any) -> str:
    return str(getattr(feature, "dtype", None) or feature)
