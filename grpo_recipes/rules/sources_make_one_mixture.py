"""The sources of `datasets` form one mixture.

A recipe has `dataset` or `datasets`. Each source has rows and a unique name. Either all sources have a weight or none
of them. At least one source is drawn from the first step, and each is drawn at least once. `rewards` of a source are
names of the recipe's rewards, and each reward judges at least one source. A reward model judges every source, since TRL
runs it over all completions. A mixture ends with `training.max_steps`, since its sources end at different times and
there are no epochs. Held-out rows are not part of a mixture; `evaluation` names them. You cannot truncate the prompts
of only one source, because TRL truncates all prompts.
"""

import math
from collections.abc import Iterator
from typing import Any

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.prompt_shape import SOURCE_NAME
from grpo_recipes.rules._shared.batch_cut import ACCUMULATION, ITERATIONS, micro_batches_fed
from grpo_recipes.rules._shared.context import Context, NotJudged
from grpo_recipes.rules._shared.training_rows import held_out_sets, makes_rows, own_columns
from grpo_recipes.rules.data_fills_a_generation import prompts_of_a_generation
from grpo_recipes.user_files.local_files import name_list
from grpo_recipes.user_files.reward_imports import reward_names

ID = "DAT012"
MIXTURE, STEPS = "datasets", "GRPOConfig.max_steps"


def check(context: Context) -> Iterator[Finding]:
    sources = context.items(MIXTURE)
    if not sources:
        return
    if "datasets.source" not in context.settings:
        because = "rows come either from one data set or from several"
        yield context.finding("the recipe has both dataset and datasets", "dataset", because, fix="keep one of them")
        return
    yield from _names(context, sources)
    yield from _shares(context, sources)
    yield from _judges(context, sources)
    steps = context.value(STEPS)
    if not isinstance(steps, int) or steps < 1:
        because = "the sources end at different times, so a mixture has no epochs"
        yield context.finding("datasets needs max_steps", STEPS, because, fix="max_steps: 1000, under training")
    for name, held_out in held_out_sets(context):
        if held_out.value("evaluation.path") is None and not makes_rows(held_out, "evaluation"):
            message = f"{f'held-out set {name}' if name else 'evaluation'} needs a path, since datasets has several"
            because = "rows in a source are trained on, so held-out rows have to be elsewhere"
            yield held_out.finding(message, "evaluation.path", because, fix="path: a file with held-out rows")
    yield from _of_one(context)


def _names(context: Context, sources: list[dict[str, Any]]) -> Iterator[Finding]:
    names = [source["source"] for source in sources]
    for index, name in enumerate(names):
        path = (MIXTURE, index, "source")
        if name is None:
            message = f"datasets[{index}] has no name"
            patch = [Patch(path, str(sources[index]["name"] or f"source{index + 1}"))]
            because = "source is the name for rows and metrics; name is a configuration of a hub data set"
            yield context.finding(message, MIXTURE, because, patch=patch, mark=context.source.mark(path))
        elif name in names[:index]:
            message = f"two sources are called {name}"
            because = "rows and metrics of a source use its name"
            yield context.finding(
                message, MIXTURE, because, fix="source: a different name", mark=context.source.mark(path)
            )


def _shares(context: Context, sources: list[dict[str, Any]]) -> Iterator[Finding]:
    weights = [source["weight"] for source in sources]
    if None in weights and weights.count(None) < len(weights):
        index = weights.index(None)
        message = f"source {sources[index]['source']} has no weight, but others do"
        because = "weights are relative to each other; without weights, each row counts the same"
        mark = context.source.mark((MIXTURE, index))
        yield context.finding(
            message, MIXTURE, because, fix="set a weight for every source, or for no source", mark=mark
        )
    begins, steps = [source["from_step"] for source in sources], context.value(STEPS)
    if min(begins) > 1:
        message = f"no source is drawn before step {min(begins)}"
        because = "training begins with step 1 and needs prompts"
        mark = context.source.mark((MIXTURE, begins.index(min(begins)), "from_step"))
        yield context.finding(message, MIXTURE, because, fix="set from_step: 1 for one source", mark=mark)
    try:
        fed, prompts = micro_batches_fed(context) * context.whole(ITERATIONS), prompts_of_a_generation(context)
        a_step = context.whole(ACCUMULATION)
    except NotJudged:
        return
    if isinstance(steps, int) and steps > 0 and min(fed, a_step, prompts) > 0:
        yield from _undrawn(context, sources, math.ceil(steps * a_step / fed), (fed, a_step, prompts))


def _undrawn(
    context: Context, sources: list[dict[str, Any]], count: int, each: tuple[int, int, int]
) -> Iterator[Finding]:
    """The sources that no generation of so many draws from; as worker/data/mixture.py draws.

    each: of a generation the micro-batches that it feeds, those of an optimizer step, and its prompts.
    """
    fed, a_step, prompts = each
    begins = [math.ceil((source["from_step"] - 1) * a_step / fed) for source in sources]
    last = (count - 1) * fed // a_step + 1
    for index, source in enumerate(sources):
        if begins[index] >= count:
            message = f"source {source['source']} is never drawn: it begins at step {source['from_step']}"
            because = [f"max_steps is {context.value(STEPS)}"]
            because += [f"the last generation begins at step {last}"] if fed != a_step else []
            mark = context.source.mark((MIXTURE, index, "from_step"))
            yield context.finding(message, MIXTURE, because, fix=f"from_step: {last}, or less", mark=mark)
        elif None not in (weights := [other["weight"] for other in sources]):
            ends = sorted({count, *(begin for begin in begins if begins[index] < begin < count)})
            starts = [begins[index], *ends[:-1]]
            if not any(
                _is_drawn(index, weights, [begin <= start for begin in begins], (end - start) * prompts)
                for start, end in zip(starts, ends, strict=True)
            ):
                message = f"source {source['source']} is never drawn: its weight {source['weight']:g} is too small"
                most = max(end - start for start, end in zip(starts, ends, strict=True)) * prompts
                beside = f"with the other weights, {most} prompts include no row of this source"
                fix = "increase its weight or max_steps, or remove the source"
                yield context.finding(message, MIXTURE, beside, fix=fix, mark=context.source.mark((MIXTURE, index)))


def _is_drawn(index: int, weights: list[float], is_active: list[bool], count: int) -> bool:
    """Whether a source is one of the first so many that are drawn."""
    before = 0
    for other, weight in enumerate(weights):
        if other != index and is_active[other]:
            most = min(weight / weights[index] / 2 - 0.5, count)  # draws of it up to the source's first one
            before += max(0, math.floor(most) + 1 if other < index else math.ceil(most))
    return before < count


def _judges(context: Context, sources: list[dict[str, Any]]) -> Iterator[Finding]:
    rewards: Any = context.written["rewards"].value  # here those that judge the source alone
    names = reward_names(rewards)
    for index, source in enumerate(sources):
        wanted, mark = source["rewards"], context.source.mark((MIXTURE, index, "rewards"))
        if wanted is None:
            continue
        unknown = [name for name in wanted if name not in names]
        if unknown or not wanted:
            message = f"source {source['source']} names {name_list(unknown) or 'no reward'}"
            message += ", which the recipe does not have" if unknown else ""
            because = f"its rewards are {name_list(names)}"
            yield context.finding(
                message, MIXTURE, because, fix="rewards: some of these; or remove rewards for all of them", mark=mark
            )
        models = [name for name, reward in zip(names, rewards, strict=True) if reward.get("model") is not None]
        left_out = [name for name in models if name not in wanted]
        if left_out and not unknown:
            message = f"the reward model {left_out[0]} also judges source {source['source']}"
            because = "TRL runs a reward model over all completions of a step"
            yield context.finding(
                message, MIXTURE, because, fix=f"add {left_out[0]} to the rewards of the source", mark=mark
            )
    listings = [source["rewards"] for source in sources]
    if all(listings) and set().union(*listings) <= set(names):
        for position, name in enumerate(names):
            if rewards[position].get("model") is None and not any(name in listing for listing in listings):
                because = (
                    "each source names its rewards and no source names this one, so it would give None for each row"
                )
                fix = f"add {name} to the rewards of a source, or remove it"
                mark = context.source.mark(("rewards", position))
                yield context.finding(f"reward {name} judges no source", "rewards", because, fix=fix, mark=mark)


def _of_one(context: Context) -> Iterator[Finding]:
    """What is wrong with one source, which the context has as its dataset."""
    if context.has_section("environment") and context.value("dataset.path") is None and not makes_rows(context):
        because = "only a recipe without datasets can use episodes of an environment"
        yield context.finding("the source has neither path nor reasoning_gym", "dataset.path", because, fix="path: ...")
    if (
        context.settings.get("dataset.max_prompt_tokens.over")
        and context.value("dataset.max_prompt_tokens.over") == "cut"
    ):
        key, because = "dataset.max_prompt_tokens.over", "TRL cuts the prompts of all sources or of none"
        yield context.wrong("prompts of a single source cannot be cut", key, because, "drop")
    written: Any = context.source.values["dataset"]
    if SOURCE_NAME in (written.get("columns") or {}):
        because = "grpo-run writes the source of each row to this column"
        yield context.finding(
            f"columns cannot define {SOURCE_NAME}", "dataset.columns", because, fix="choose a different name"
        )
    elif SOURCE_NAME in (own_columns(context) or ()):
        because = "grpo-run writes the source of each row to this column"
        message = f"the data has a column {SOURCE_NAME}"
        yield context.finding(message, "dataset.path", because, fix="rename the column in the data")
