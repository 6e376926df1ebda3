"""What a plan computes: tokens and floating-point operations of a step, and the steps."""

import math
from typing import NamedTuple, cast

from grpo_recipes.compute.flops import prompt_flops, scoring_flops, token_flops, update_flops
from grpo_recipes.contract.plan import Plan
from grpo_recipes.memory.layout import Layout
from grpo_recipes.memory.needs import MemoryNeeds
from grpo_recipes.memory.update import Update
from grpo_recipes.user_files.architecture import Architecture, read_architecture


class Tokens(NamedTuple):
    """Tokens of an optimizer step of all processes, at most: if every prompt and completion is as long as it may be.

    trained: prompts with their completions, each in every step that trains on it.
    """

    generated: float
    trained: int


class Work(NamedTuple):
    """What one process does, counted in micro-batches.

    generation_every: optimizer steps that are trained on one generation, below 1 where a step needs several.
    scoring_passes: forward passes over each completion before it is trained on, for the reference and for the
    probabilities of the policy that made it.
    """

    generation_every: float
    iterations: int
    scoring_passes: int
    processes: int


class Flops(NamedTuple):
    """Floating-point operations of an optimizer step of all processes: generating, scoring, training."""

    generation: float
    scoring: float
    update: float

    def total(self) -> float:
        """All of them."""
        return self.generation + self.scoring + self.update


class Compute(NamedTuple):
    """What a run computes. steps: of the whole run, None where rows were not counted.

    flops: of a step, None where they are not known, and unknown says why.
    """

    tokens: Tokens
    steps: int | None
    flops: Flops | None = None
    unknown: str = ""


def planned_compute(plan: Plan, prompt: int, needs: MemoryNeeds | str) -> Compute:
    """What a plan computes. prompt: tokens of the longest; needs: of its memory, or why they are not known."""
    known = Compute(tokens_of(plan, prompt), steps_of(plan))
    if isinstance(needs, str):
        return known._replace(unknown=needs)
    if (config := needs.config) is None:
        return known._replace(unknown="the config.json of the model is not here")
    architecture, update = read_architecture(config), needs.update
    if architecture is None:
        return known._replace(unknown=f"models of type {config.get('model_type')} are not covered")
    if update.adapter is not None and architecture.experts is not None and update.adapter.adapts_experts():
        return known._replace(unknown="what an adapter of all experts computes was not looked into")
    return known._replace(flops=flops_of(architecture, update, needs.layout, work_of(plan)))


def flops_of(architecture: Architecture, update: Update, layout: Layout, work: Work) -> Flops:
    """The operations of a step, if every prompt and completion is as long as it may be."""
    makes = update if layout.generation == "transformers" else update._replace(adapter=None)
    sequences = layout.sequences
    tokens = update.completion * token_flops(architecture, makes, sequences)
    made = (prompt_flops(architecture, makes, sequences) + tokens) / work.generation_every
    passes = work.scoring_passes * update.accumulation / work.iterations
    scored = scoring_flops(architecture, update).total() * passes
    trained = update_flops(architecture, update) * update.accumulation
    return Flops(*(part * work.processes for part in (made, scored, trained)))


def work_of(plan: Plan) -> Work:
    """The work of a plan.

    Source of the passes: trl 1.16.0, trainer/grpo_trainer.py: _generate_and_score_completions.
    """
    arguments, batch = plan.arguments.GRPOConfig, plan.batch
    iterations = cast(int, arguments.get("num_iterations") or 1)
    micro_batches = batch.steps_per_generation * iterations
    is_corrected = plan.vllm is not None and arguments.get("vllm_importance_sampling_correction", True) is True
    scores_policy = is_corrected or batch.accumulation % micro_batches != 0
    return Work(
        generation_every=micro_batches / batch.accumulation,
        iterations=iterations,
        scoring_passes=int(bool(arguments.get("beta"))) + int(scores_policy),
        processes=plan.world.num_processes,
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
