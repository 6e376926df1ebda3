"""Floating-point operations of matrix products, two for each multiplication with its addition.

Norms, activations and the softmax are left out, as torch.utils.flop_counter leaves them out. Attention is counted as
a whole square, though some kernels skip what lies behind a token.
"""

import math
from typing import NamedTuple

from grpo_recipes.memory.update import Update
from grpo_recipes.user_files.architecture import Architecture

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
