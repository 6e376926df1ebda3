"""The held-out measure: the policy answers rows it is not trained on, and the rewards judge them."""

from collections.abc import Callable
from typing import Any

from accelerate.utils import gather_object

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.completions.ends import ends_of
from grpo_recipes.worker.completions.figures import JudgedRow
from grpo_recipes.worker.completions.generation import answers, undisturbed
from grpo_recipes.worker.completions.held_out_environments import with_environments
from grpo_recipes.worker.completions.judging import judge, judged_by


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
        given, environments = with_environments(trainer, given)
        completions, tokens = answers(
            trainer,
            [row["prompt"] for row in given],
            plan.evaluation,
            ends_of(trainer, plan),
            on_batch,
            draws if samples > 1 or plan.evaluation.generated_by == "vllm" else None,
            environments,
        )
        on_batch()
        columns = judge(trainer, given, completions, tokens, environments)
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
    if trainer.accelerator.num_processes > 1:
        judged = gather_object(judged)
    return [one for _, one in sorted({(one.row, one.sample): one for one in judged}.items())]


def prompt_text(prompt: Any) -> str:
    """A prompt or completion as a reader wants to see it: the text, or that of the last message."""
    return prompt if isinstance(prompt, str) else str(prompt[-1].get("content") or "")


def answer_text(completion: Any) -> str:
    """A completion as a reader wants to see it: the last that the model said, not what a tool replied."""
    if isinstance(completion, str):
        return completion
    return prompt_text([message for message in completion if message.get("role") != "tool"] or [{}])


def _share(count: int, rank: int, world_size: int) -> list[int]:
    """Every world_size-th row. All shares are equally long; a short one repeats the last row of the data."""
    return [min(start + rank, count - 1) for start in range(0, count, world_size)]
