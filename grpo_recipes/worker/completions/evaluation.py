"""Evaluates the policy: it answers held-out rows, and the rewards score the answers."""

import asyncio
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch
from trl.data_utils import apply_chat_template

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.plan import Evaluation, Plan
from grpo_recipes.worker._shared.equal_rewards import is_failed
from grpo_recipes.worker._shared.inputs import IMAGES, answer_text, decode_images, prompt_text, prompt_with_images
from grpo_recipes.worker._shared.library import gather_from_all, image_digests
from grpo_recipes.worker._shared.prefill import Prefill
from grpo_recipes.worker._shared.replacing import Refused, replace_temporarily
from grpo_recipes.worker.completions.figures import JudgedRow
from grpo_recipes.worker.completions.generation import answers, as_tensor, tokens_of_prompts
from grpo_recipes.worker.completions.held_out_environments import Row, has_environments, with_environments
from grpo_recipes.worker.completions.undisturbed import undisturbed
from grpo_recipes.worker.ends.ends import Ends, ends_of
from grpo_recipes.worker.proofs.images_are_shown import prove_evaluation

# Not passed to reward functions as columns: TRL passes these itself.
OWN_COLUMNS = ("prompt", "completion", "completion_ids")


def evaluate(
    trainer: Any, plan: Plan, rows: Any, on_batch: Callable[[], None], places: Sequence[int] | None = None
) -> list[JudgedRow]:
    """Returns all held-out rows of one set, scored, in order, on every rank; each rank answers a share.

    All ranks must call it. Training is unaffected: module modes and all random states are restored. on_batch: called
    before each batch of prompts, and before the rewards score the answers. places: indices of the rows to evaluate,
    None for all. Raises Refused if the policy gets other images than those of the rows.
    """
    assert plan.evaluation is not None
    samples, places = plan.evaluation.samples, range(len(rows)) if places is None else places
    share = _share(len(places), trainer.accelerator.process_index, trainer.accelerator.num_processes)
    draws = [(places[at], sample) for at in share for sample in range(samples)]
    given = [rows[index] for index, _ in draws]
    with undisturbed(trainer), _images_proved(trainer, given, plan.evaluation.batch_size) as failed:
        by_row = draws if samples > 1 or plan.evaluation.generated_by == "vllm" else None
        given, completions, _, columns = answered_and_judged(
            trainer, given, plan.evaluation, ends_of(trainer, plan), on_batch, by_row, judging(trainer, plan)
        )
        names = [name for name in judged_by(trainer, plan) if name in (plan.evaluation.rewards or (name,))]
    prefill = Prefill.of_plan(plan, lambda: trainer.processing_class)
    judged = [
        JudgedRow(
            index,
            prompt_text(row["prompt"]),
            answer_text(completion),
            dict(zip(names, values, strict=True)),
            {name: str(row[name]) for name in plan.evaluation.data.columns},
            sample,
            prefill([row["prompt"]])[0],
        )
        for (index, sample), row, completion, *values in zip(draws, given, completions, *columns, strict=True)
    ]
    judged = gather_from_all(trainer, judged)
    if failed := gather_from_all(trainer, failed):
        raise Refused(failed[0])
    return [answer for _, answer in sorted({(answer.row, answer.sample): answer for answer in judged}.items())]


def answered_and_judged(
    trainer: Any,
    rows: list[Row],
    how: Evaluation,
    ends: Ends,
    on_batch: Callable[[], None],
    draws: list[tuple[int, int]] | None = None,
    judging: Sequence[int] | None = None,
) -> tuple[list[Row], list[Any], list[list[int]], list[list[float | None]]]:
    """Returns the rows as prompted, their completions, the completions' tokens, and each reward's values.

    draws: as in answers(). judging: indices of the trainer's rewards to call, None for all. Rows with an environment
    are answered and scored batch by batch, so that only one batch's objects exist; ranks must pass equally many rows,
    so that they have equally many batches. The same goes for rows with images, which are decoded per batch.
    """
    has_images = bool(rows) and IMAGES in rows[0]
    size = how.batch_size if has_environments(trainer) or has_images else len(rows)
    asked: list[Row] = []
    completions: list[Any] = []
    tokens: list[list[int]] = []
    columns: list[list[float | None]] = [[] for _ in (trainer.reward_funcs if judging is None else judging)]
    for start in range(0, len(rows), size):
        given, environments = with_environments(trainer, [decode_images(row) for row in rows[start : start + size]])
        prompts = [prompt_with_images(row["prompt"], row.get(IMAGES)) for row in given]
        own = None if draws is None else draws[start : start + size]
        answered, ids = answers(trainer, prompts, how, ends, on_batch, own, environments)
        on_batch()
        for column, values in zip(columns, judge(trainer, given, answered, ids, environments, judging), strict=True):
            column += values
        asked += [{name: value for name, value in row.items() if name != IMAGES} for row in given]
        completions += answered
        tokens += ids
    return asked, completions, tokens, columns


@contextmanager
def _images_proved(trainer: Any, rows: list[Row], count: int) -> Iterator[list[Finding]]:
    """Yields a list that afterwards has a finding if the first `count` rows with images were shown without them."""
    failed, shown_parts = list[Finding](), list[list[str]]()  # shown_parts: of each generation
    due = [decode_images(row) for row in [row for row in rows if row.get(IMAGES)][:count]]
    # One by one, so that no row can get the images of another.
    fields = [tokens_of_prompts(trainer, [prompt_with_images(row["prompt"], row[IMAGES])])[1] for row in due]
    expected = [part for row_fields in fields for part in _parts(row_fields.get("pixel_values"))]
    policy = trainer.model.get_base_model() if hasattr(trainer.model, "get_base_model") else trainer.model
    generate, encode = policy.generate, getattr(policy.base_model, "get_image_features", None)

    def begun(*given: Any, **named: Any) -> Any:
        shown_parts.append([])
        return generate(*given, **named)

    def note(pixels: Any) -> None:
        if pixels is not None and shown_parts and not shown_parts[-1] and sum(map(len, shown_parts)) < len(expected):
            shown_parts[-1] = _parts(pixels)

    def called(_: Any, __: Any, named: dict[str, Any]) -> None:
        note(named.get("pixel_values"))

    def encoded(*given: Any, **named: Any) -> Any:
        note(named.get("pixel_values", given[0] if given else None))
        return encode and encode(*given, **named)

    with ExitStack() as watching:
        watching.enter_context(replace_temporarily(policy, "generate", begun))
        # transformers 5 encodes images before the first call of the model, older releases in it.
        watching.callback(policy.register_forward_pre_hook(called, with_kwargs=True).remove)
        if encode is not None:
            watching.enter_context(replace_temporarily(policy.base_model, "get_image_features", wraps(encode)(encoded)))
        yield failed
    if finding := prove_evaluation(expected, [part for parts in shown_parts for part in parts][: len(expected)]):
        failed.append(finding)


def _parts(pixels: Any) -> list[str]:
    """Digests of a processor's images, of none a text that no image has."""
    return [""] if pixels is None else [part for image in image_digests(as_tensor(pixels)) for part in image]


def _share(count: int, rank: int, world_size: int) -> list[int]:
    """Returns the indices of every world_size-th row. All shares are equally long; short ones repeat the last row."""
    return [min(start + rank, count - 1) for start in range(0, count, world_size)]


def judged_by(trainer: Any, plan: Plan) -> list[str]:
    """Returns the names of the trainer's rewards: the plan's, then those of environments with a get_reward."""
    planned = [reward.name for reward in plan.rewards]
    return [*planned, *list(getattr(trainer, "reward_func_names", ()))[len(planned) :]]


def judging(trainer: Any, plan: Plan) -> list[int] | None:
    """Returns the indices of the trainer's rewards that score this evaluation set, None for all."""
    named = () if plan.evaluation is None else plan.evaluation.rewards
    return [index for index, name in enumerate(judged_by(trainer, plan)) if name in named] if named else None


def judge(
    trainer: Any,
    rows: list[dict[str, Any]],
    completions: list[Any],
    tokens: list[list[int]],
    environments: list[Any] | None = None,
    judging: Sequence[int] | None = None,
) -> list[list[float | None]]:
    """Returns each reward's values for all completions, None where it returns none.

    tokens: of each completion. environments: of each completion, or None. judging: indices of the rewards to call, None
    for all. What a function logs is dropped, so that it does not appear among training metrics. Raises ValueError if a
    function does not return one value per completion.
    """
    prompts = [prompt_with_images(row["prompt"], row.get(IMAGES)) for row in rows]
    columns = {name: [row[name] for row in rows] for name in rows[0] if name not in OWN_COLUMNS}
    given = {**columns, "trainer_state": trainer.state, "log_extra": _ignore, "log_metric": _ignore}
    if environments is not None:
        given["environments"] = environments
    scores: list[list[float]] = []
    for index, function in enumerate(trainer.reward_funcs):
        if judging is not None and index not in judging:
            continue
        if isinstance(function, torch.nn.Module):
            processing = trainer.reward_processing_classes[index]
            values: list[Any] = _model_rewards(trainer, function, processing, prompts, completions)
        else:
            values = _call(function, prompts=prompts, completions=completions, completion_ids=tokens, **given)
        if len(values) != len(completions):
            raise ValueError(
                f"reward {function.__name__} returned {len(values)} values for {len(completions)} completions"
            )
        scores.append([math.nan if value is None else float(value) for value in values])
    # As in training, a completion that a reward failed on has no other rewards.
    failed = is_failed(torch.tensor(scores, dtype=torch.float32)).any(dim=0).tolist()
    return [
        [None if is_out or math.isnan(value) else value for value, is_out in zip(values, failed, strict=True)]
        for values in scores
    ]


def _ignore(*_: Any) -> None:
    """Replaces TRL's log_extra and log_metric."""


def _call(function: Any, **given: Any) -> list[Any]:
    answer = function(**given)
    return list(asyncio.run(_wait_for(answer)) if inspect.isawaitable(answer) else answer)


async def _wait_for(awaitable: Any) -> Any:
    return await awaitable


def _model_rewards(
    trainer: Any, model: Any, processing: Any, prompts: list[Any], completions: list[Any]
) -> list[float]:
    """Returns the first logit of a reward model for each prompt and completion, in batches of the training's size."""
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
