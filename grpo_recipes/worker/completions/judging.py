"""The trainer's rewards, called outside of training as TRL calls them inside."""

import asyncio
import inspect
import math
from typing import Any

import torch
from trl.data_utils import apply_chat_template

from grpo_recipes.contract.plan import Plan

# Not passed to reward functions as columns: TRL keeps these to itself.
OWN_COLUMNS = ("prompt", "completion", "completion_ids")


def judged_by(trainer: Any, plan: Plan) -> list[str]:
    """The names of the trainer's rewards: those of the plan, then that of an environment which has one of its own."""
    planned = [reward.name for reward in plan.rewards]
    return [*planned, *list(getattr(trainer, "reward_func_names", ()))[len(planned) :]]


def judge(
    trainer: Any,
    rows: list[dict[str, Any]],
    completions: list[Any],
    tokens: list[list[int]],
    environments: list[Any] | None = None,
) -> list[list[float | None]]:
    """For each reward of the trainer the values of all completions, None where it gives none.

    tokens: of each completion. environments: of each completion, None without any. What a function logs is dropped, so
    that it does not end up among training metrics.
    Raises ValueError if a function does not return one value for each completion.
    """
    prompts = [row["prompt"] for row in rows]
    columns = {name: [row[name] for row in rows] for name in rows[0] if name not in OWN_COLUMNS}
    given = {**columns, "trainer_state": trainer.state, "log_extra": _ignore, "log_metric": _ignore}
    if environments is not None:
        given["environments"] = environments
    found: list[list[float | None]] = []
    for function, processing in zip(trainer.reward_funcs, trainer.reward_processing_classes, strict=True):
        if isinstance(function, torch.nn.Module):
            values: list[Any] = _model_rewards(trainer, function, processing, prompts, completions)
        else:
            values = _called(function, prompts=prompts, completions=completions, completion_ids=tokens, **given)
        if len(values) != len(completions):
            raise ValueError(
                f"reward {function.__name__} returned {len(values)} values for {len(completions)} completions"
            )
        found.append([None if value is None or math.isnan(value) else float(value) for value in values])
    return found


def _ignore(*_: Any) -> None:
    """Takes the place of TRL's log_extra and log_metric."""


def _called(function: Any, **given: Any) -> list[Any]:
    found = function(**given)
    return list(asyncio.run(_awaited(found)) if inspect.isawaitable(found) else found)


async def _awaited(found: Any) -> Any:
    return await found


def _model_rewards(
    trainer: Any, model: Any, processing: Any, prompts: list[Any], completions: list[Any]
) -> list[float]:
    """The first logit of a reward model over prompt and completion, in batches as large as training's."""
    pairs = list(zip(prompts, completions, strict=True))
    if isinstance(prompts[0], str):
        texts = [prompt + completion for prompt, completion in pairs]
    else:
        keywords = getattr(trainer.args, "chat_template_kwargs", None) or {}
        texts = [apply_chat_template({"messages": p + c}, processing, **keywords)["text"] for p, c in pairs]
    size = trainer.args.per_device_train_batch_size
    values: list[float] = []
    for start in range(0, len(texts), size):
        inputs = processing(
            text=texts[start : start + size],
            return_tensors="pt",
            padding=True,
            padding_side="right",
            add_special_tokens=False,
        )
        values += model(**inputs.to(trainer.accelerator.device)).logits[:, 0].float().tolist()
    return values
