"""What a plan computes: tokens and floating-point operations of a step, and the number of steps."""

import math
from typing import NamedTuple, cast

from grpo_recipes.contract.plan import Plan
from grpo_recipes.memory.estimate import MemoryNeeds
from grpo_recipes.memory.layout import Layout
from grpo_recipes.memory.update import Update
from grpo_recipes.user_files.architecture import Architecture, read_architecture

# What a plan computes: tokens and floating-point operations of a step, and the steps.


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


# Floating-point operations of matrix products, two for each multiplication with its addition.
#
# Norms, activations and the softmax are left out, as torch.utils.flop_counter leaves them out. Attention is counted as
# a whole square, though some kernels skip what lies behind a token.


_FUSED_BACKWARD = 2.5
"""Attention's five products on the way back, one of them the scores once more, against two on the way forward."""


class ForwardFlops(NamedTuple):
    """Operations of a forward pass: weights of the layers, adapter, attention, output layer."""

    weights: float
    adapter: float
    attention: float
    output: float

    def total(self) -> float:
        """All of them."""
        return self.weights + self.adapter + self.attention + self.output

    def layers(self) -> float:
        """The operations of the layers, which checkpointing computes again."""
        return self.weights + self.adapter + self.attention


def forward_flops(architecture: Architecture, update: Update, rows: int, length: int, scored: int) -> ForwardFlops:
    """A forward pass over whole rows. scored: positions of each row of which probabilities are computed."""
    tokens, layers = rows * length, architecture.layers
    adapter = 0 if update.adapter is None else update.adapter.parameters(architecture)
    return ForwardFlops(
        weights=2.0 * tokens * layers * active_parameters(architecture),
        adapter=2.0 * tokens * layers * adapter,
        attention=4.0 * rows * length**2 * layers * architecture.heads * architecture.head_dim,
        output=2.0 * rows * scored * architecture.vocabulary * architecture.hidden,
    )


def active_parameters(architecture: Architecture) -> int:
    """The weights of a layer that a token is multiplied with: of the experts, those that it goes to."""
    experts = architecture.experts
    if experts is None:
        return architecture.linear_parameters()
    routed = experts.per_token * 3 * experts.intermediate * architecture.hidden
    return architecture.linear_parameters() + routed + experts.number * architecture.hidden


def update_flops(architecture: Architecture, update: Update) -> float:
    """ForwardFlops and backward pass of one micro-batch.

    Weights that are trained take two products on the way back, one for their gradient and one for that of what they
    were multiplied with; frozen ones the second alone. Checkpointing computes the layers again, to their last product
    (torch 2.13.0, utils/checkpoint.py: _StopRecomputationError). TRL's fused output layer computes its logits again
    (trl 1.16.0, kernels/chunked_logprob.py: ChunkedLogProbFunction.backward).
    """
    forward = scoring_flops(architecture, update)
    products = 2 if update.trains_weights() else 1
    attention = 2.0 if update.attention == "eager" else _FUSED_BACKWARD
    back = products * forward.weights + 2 * forward.adapter + attention * forward.attention
    output = (products + (update.output == "fused")) * forward.output
    again = forward.layers() - _last_product(architecture, update) if update.is_checkpointing else 0.0
    return forward.total() + again + back + output - _unneeded(architecture, update)


def scoring_flops(architecture: Architecture, update: Update) -> ForwardFlops:
    """A forward pass over one micro-batch. Without Triton the fused output layer computes all positions but the last.

    Source: trl 1.16.0, trainer/utils.py: add_fused_lm_head.
    """
    scores_all = update.output == "fused" and update.device != "cuda"
    scored = update.length - 1 if scores_all else update.completion + (update.output != "fused")
    return forward_flops(architecture, update, update.batch, update.length, scored)


def _last_product(architecture: Architecture, update: Update) -> float:
    """The last product of each layer, whose result nothing of the way back needs.

    A norm behind it does need it. Unknown of experts, so none.
    """
    if architecture.experts is not None or architecture.style.norms != "before":
        return 0.0
    size = architecture.intermediate * architecture.hidden
    if update.adapter is not None and update.adapter.adapts("mlp.down_proj"):
        size = update.adapter.r * architecture.hidden
    return 2.0 * update.tokens * architecture.layers * size


def _unneeded(architecture: Architecture, update: Update) -> float:
    """The gradients of the first layer's input, which no trained weight lies before; checkpointing asks for them.

    Source: transformers 5.23.0, modeling_utils.py: enable_input_require_grads.
    """
    if update.adapter is None or update.is_checkpointing:
        return 0.0
    linears = architecture.linears()
    readers = [name for name in linears if name.endswith((".q_proj", ".k_proj", ".v_proj", ".qkv_proj"))]
    adapted = sum(update.adapter.r * architecture.hidden for name in readers if update.adapter.adapts(name))
    return 2.0 * update.tokens * (sum(math.prod(linears[name]) for name in readers) + adapted)


def prompt_flops(architecture: Architecture, update: Update, sequences: int) -> float:
    """The prompts of so many sequences, each read whole, with the probabilities of the first new token."""
    return forward_flops(architecture, update, sequences, update.prompt, 1).total()


def token_flops(architecture: Architecture, update: Update, sequences: int) -> float:
    """One new token of so many sequences, in the mean of all that a completion has."""
    one = forward_flops(architecture, update, sequences, 1, 1)
    seen = architecture.held_tokens(update.prompt + update.completion / 2) / architecture.layers
    return one.weights + one.adapter + one.output + one.attention * seen
