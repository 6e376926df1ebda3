"""What of a plan its duration depends on: the passes over its tokens, and how often they come."""

import math
from typing import NamedTuple, cast

from grpo_recipes.contract.plan import Plan


class Tokens(NamedTuple):
    """Tokens of an optimizer step of all processes, at most: if every prompt and completion is as long as it may be.

    trained: prompts with their completions, each in every step that trains on it.
    """

    generated: float
    trained: int


class Work(NamedTuple):
    """What one process does, counted in micro-batches.

    generation_every: optimizer steps that are trained on one generation, below 1 where a step needs several.
    group: completions of a prompt. scoring_passes: forward passes over each completion before it is trained on, for
    the reference and for the probabilities of the policy that made it. server_gpus: of the run's own vLLM server.
    """

    generation_every: float
    iterations: int
    group: int
    scoring_passes: int
    processes: int
    server_gpus: int


def work_of(plan: Plan) -> Work:
    """The work of a plan.

    Source of the passes: trl 1.16.0, trainer/grpo_trainer.py: _generate_and_score_completions.
    """
    arguments, batch = plan.arguments.GRPOConfig, plan.batch
    iterations = cast(int, arguments.get("num_iterations") or 1)
    micro_batches = batch.steps_per_generation * iterations
    is_corrected = plan.vllm is not None and arguments.get("vllm_importance_sampling_correction", True) is True
    scores_policy = is_corrected or batch.accumulation % micro_batches != 0
    server = plan.vllm.server if plan.vllm is not None else None
    return Work(
        generation_every=micro_batches / batch.accumulation,
        iterations=iterations,
        group=batch.num_generations,
        scoring_passes=int(bool(arguments.get("beta"))) + int(scores_policy),
        processes=plan.world.num_processes,
        server_gpus=0 if server is None else len(server.gpus),
    )


def tokens_of(plan: Plan, prompt: int) -> Tokens:
    """The tokens of a step. prompt: tokens of the longest prompt."""
    rows = plan.batch.micro_batch * plan.batch.accumulation * plan.world.num_processes
    completion = cast(int, plan.arguments.GRPOConfig["max_completion_length"])
    generated = rows * completion / work_of(plan).iterations
    return Tokens(generated, rows * (prompt + completion))


def steps_of(plan: Plan) -> int | None:
    """Optimizer steps of the whole run; None where they depend on rows that were not counted.

    An incomplete last generation of an epoch is left out, an incomplete last step is taken. Source: trl 1.16.0,
    trainer/utils.py: RepeatSampler; transformers 5.23.0, trainer.py: set_initial_training_values.
    """
    arguments, batch, rows = plan.arguments.GRPOConfig, plan.batch, plan.data.rows
    most = arguments.get("max_steps")
    if isinstance(most, int) and most > 0:
        return most
    if rows is None:
        return None
    rows = rows if plan.data.max_rows is None else min(rows, plan.data.max_rows)
    iterations = cast(int, arguments.get("num_iterations") or 1)
    micro_batches = rows // batch.prompts * batch.steps_per_generation * iterations
    epochs = cast(float, arguments.get("num_train_epochs") or 3.0)
    return math.ceil(epochs * max(1, math.ceil(micro_batches / batch.accumulation)))
