"""The experts of a layer on a tape."""

from grpo_recipes.memory.tape import Tape, TapeTensor
from grpo_recipes.memory.update import Update
from grpo_recipes.user_files.architecture import Architecture

_INDEX = 8
"""Bytes of an index, int64."""


def routed(tape: Tape, architecture: Architecture, update: Update, read: TapeTensor) -> TapeTensor:
    """The router and the products of all experts, each token copied for each expert that it goes to.

    Source: transformers 5.23.0, models/qwen3_moe/modeling_qwen3_moe.py: Qwen3MoeTopKRouter; and integrations/moe.py:
    grouped_mm_experts_forward. grouped_mm is not cast by autocast: it computes in the type of the weights.
    """
    experts = architecture.experts
    assert experts is not None
    hidden, inner, tokens, trains = architecture.hidden, experts.intermediate, update.tokens, update.trains_weights()
    sent, width = tokens * experts.per_token, update.weight_width
    logits = tape.made(
        [tape.cast(read, update.width)],
        tokens * experts.number,
        update.width,
        keeps=[read] if trains else [],
        trains=trains,
    )
    shares = tape.made([tape.cast(logits, 4)], tokens * experts.number, 4, keeps_result=True)
    order, back = tape.tensor(sent, _INDEX), tape.tensor(sent, _INDEX)
    shares = tape.made([shares], sent, 4, keeps=[tape.tensor(sent, _INDEX)])
    shares = tape.made([tape.cast(shares, update.width)], sent, update.width, keeps=[order])
    chosen = tape.made([read], sent * hidden, read.width, keeps=[tape.tensor(sent, _INDEX)])
    chosen = tape.cast(chosen, width)
    merged: list[TapeTensor] = []
    both = _grouped(tape, update, experts.number, chosen, sent * 2 * inner, (2, hidden, 2 * inner), merged)
    active = tape.made([both], sent * inner, width, keeps=[both], backward=both.size // 2)
    product = tape.made([active, both], sent * inner, width, keeps=[active, both])
    out = _grouped(tape, update, experts.number, product, sent * hidden, (1, inner, hidden), merged)
    weighed = tape.made([out, shares], sent * hidden, width, keeps=[out, shares], backward=out.size)
    ordered = tape.made([weighed], sent * hidden, width, keeps=[back])
    total = tape.made([ordered], tokens * hidden, width, holds=[chosen, out, *merged])
    return tape.cast(total, read.width)


def _grouped(
    tape: Tape,
    update: Update,
    experts: int,
    read: TapeTensor,
    count: int,
    shape: tuple[int, int, int],
    merged: list[TapeTensor],
) -> TapeTensor:
    """The product of each token with the weight of its expert. shape: modules in one weight, inputs, outputs.

    Weights with an adapter are copied whole for each forward pass, the adapter added, and the gradient is one of the
    whole copy, which is there until the experts are through. Source: peft 0.21.2, tuners/lora/layer.py: ParamWrapper,
    _LoraFactorsProxy.
    """
    modules, inputs, outputs = shape
    width, trains, parameters = update.weight_width, update.trains_weights(), experts * inputs * outputs
    if update.adapter is not None and update.adapter.adapts_experts():
        factors = tape.tensor(modules * update.adapter.r * experts * (inputs + outputs), width)
        merged.append(tape.made([], parameters, width, keeps=[factors], trains=True))
        return tape.made([read, merged[-1]], count, width, keeps=[read, merged[-1]])
    return tape.made(
        [read],
        count,
        width,
        keeps=[read] if trains else [],
        trains=trains,
        backward=parameters * width if trains else 0,
    )
