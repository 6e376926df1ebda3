"""The held-out measure: the policy answers rows it is not trained on, and the rewards judge them."""

from collections.abc import Callable
from typing import Any

from grpo_recipes.contract.plan import Evaluation, Plan
from grpo_recipes.worker._shared.library import gathered
from grpo_recipes.worker.completions.figures import JudgedRow
from grpo_recipes.worker.completions.generation import answers, undisturbed
from grpo_recipes.worker.completions.held_out_environments import Row, has_environments, with_environments
from grpo_recipes.worker.completions.judging import judge, judged_by
from grpo_recipes.worker.ends.ends import Ends, ends_of


def evaluate(trainer: Any, plan: Plan, rows: Any, on_batch: Callable[[], None]) -> list[JudgedRow]:
    """All held-out rows judged, in their order, on every rank. All ranks call it; each answers its share.

    Nothing that the training depends on changes: modes of modules and all random states are restored.
    on_batch: called before each batch of prompts, and before the rewards judge the answers.
    """
    assert plan.evaluation is not None
    samples = plan.evaluation.samples
    share = _share(len(rows), trainer.accelerator.process_index, trainer.accelerator.num_processes)
    draws = [(place, sample) for place in share for sample in range(samples)]
    given = [rows[place] for place, _ in draws]
    with undisturbed(trainer):
        by_row = draws if samples > 1 or plan.evaluation.generated_by == "vllm" else None
        given, completions, _, columns = answered_and_judged(
            trainer, given, plan.evaluation, ends_of(trainer, plan), on_batch, by_row
        )
        names = judged_by(trainer, plan)
    judged = [
        JudgedRow(
            place,
            prompt_text(row["prompt"]),
            answer_text(completion),
            dict(zip(names, values, strict=True)),
            {name: str(row[name]) for name in plan.evaluation.data.columns},
            sample,
        )
        for (place, sample), row, completion, *values in zip(draws, given, completions, *columns, strict=True)
    ]
    judged = gathered(trainer, judged)
    return [one for _, one in sorted({(one.row, one.sample): one for one in judged}.items())]


def answered_and_judged(
    trainer: Any,
    rows: list[Row],
    how: Evaluation,
    ends: Ends,
    on_batch: Callable[[], None],
    draws: list[tuple[int, int]] | None = None,
) -> tuple[list[Row], list[Any], list[list[int]], list[list[float | None]]]:
    """Rows as they were asked, the completion of each and its tokens, and for each reward the values of all.

    draws: as answers() takes them. Rows with an environment are answered and judged a batch after another, so that the
    objects of one batch are all that there are; ranks with equally many rows have equally many batches.
    """
    size = how.batch_size if has_environments(trainer) else len(rows)
    asked: list[Row] = []
    completions: list[Any] = []
    tokens: list[list[int]] = []
    columns: list[list[float | None]] = [[] for _ in trainer.reward_funcs]
    for start in range(0, len(rows), size):
        given, environments = with_environments(trainer, rows[start : start + size])
        own = None if draws is None else draws[start : start + size]
        said, ids = answers(trainer, [row["prompt"] for row in given], how, ends, on_batch, own, environments)
        on_batch()
        for column, values in zip(columns, judge(trainer, given, said, ids, environments), strict=True):
            column += values
        asked += given
        completions += said
        tokens += ids
    return asked, completions, tokens, columns


def prompt_text(prompt: Any) -> str:
    """A prompt or completion as a reader wants to see it: the text, or that of the last message."""
    content = prompt if isinstance(prompt, str) else prompt[-1].get("content") or ""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def answer_text(completion: Any) -> str:
    """A completion as a reader wants to see it: the last that the model said, not what a tool replied."""
    if isinstance(completion, str):
        return completion
    return prompt_text([message for message in completion if message.get("role") != "tool"] or [{}])


def _share(count: int, rank: int, world_size: int) -> list[int]:
    """Every world_size-th row. All shares are equally long; a short one repeats the last row of the data."""
    return [min(start + rank, count - 1) for start in range(0, count, world_size)]
