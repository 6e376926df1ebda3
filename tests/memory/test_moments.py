"""The formulas say what the code of the installed libraries holds."""

from pathlib import Path
from typing import Any

import pytest
from traces import SMALL, pairs, traced, traces, update_of

from grpo_recipes.memory.moments import moments
from grpo_recipes.user_files.architecture import read_architecture

LORA = {"r": 8, "targets": "all-linear"}
EXPERTS = {"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128}
GEMMA = {
    "model_type": "gemma3_text",
    "head_dim": 128,
    "num_key_value_heads": 1,
    "sliding_window": 64,
    "layer_types": ["sliding_attention", "full_attention"],
}
PHI = {"model_type": "phi3", "tie_word_embeddings": False, "pad_token_id": 0}
OLMO = {"model_type": "olmo2", "tie_word_embeddings": False, "num_key_value_heads": 4}
FOUR_BITS = {"lora": LORA, "quantization": "nf4", "autocast": "bfloat16"}
FAMILIES = {
    f"{family}, {way}, {completion} tokens{', checkpointing' if checkpointing else ''}": traced(
        config, **settings, completion=completion, checkpointing=checkpointing
    )
    for family, config in {"gemma3_text": GEMMA, "phi3": PHI, "olmo2": OLMO}.items()
    for way, settings in {"full": {}, "adapter": {"lora": LORA}, "four bits": FOUR_BITS}.items()
    for completion in (64, 448)
    for checkpointing in (False, True)
}
CASES = {
    "full": traced(),
    "first micro-batch": traced(accumulation=1),
    "checkpointing": traced(checkpointing=True, batch=4),
    "float32 under autocast": traced(dtype="float32", autocast="bfloat16"),
    "adapter": traced(lora=LORA, completion=128),
    "adapter under autocast, checkpointing": traced(lora=LORA, autocast="bfloat16", checkpointing=True),
    "four bits": traced(lora=LORA, quantization="nf4", checkpointing=True),
    "eager attention": traced(attention="eager", completion=192),
    "experts": traced({**EXPERTS, "head_dim": 64}),
    "experts with an adapter": traced({**EXPERTS, "head_dim": 64}, lora=LORA),
}


# Each second pair of a family and a way, in turn with few tokens and many, and with checkpointing or without: every
# family and every way. The rest is long.
IN_TURN = dict(list(FAMILIES.items())[4 * group + group // 2 % 4] for group in range(0, len(FAMILIES) // 4, 2))
SHORT_AND_LONG = [
    pytest.param(IN_TURN, id="in turn"),
    pytest.param({name: asked for name, asked in FAMILIES.items() if name not in IN_TURN}, marks=pytest.mark.long),
]


@pytest.mark.stack
@pytest.mark.parametrize("families", SHORT_AND_LONG)
def test_the_peak_of_each_family_is_that_of_a_trace(families: dict[str, dict[str, Any]], warm_python: Path) -> None:
    off = {}
    results = traces(list(families.values()), python=str(warm_python / "python"))
    for (name, asked), result in zip(families.items(), results, strict=True):
        off[name] = round(_peak(asked) / result["peak"] - 1, 3)
    assert {name: share for name, share in off.items() if abs(share) > 0.05} == {}


@pytest.mark.stack
def test_terms_and_moments_are_those_of_a_trace(warm_python: Path) -> None:
    wrong = {}
    results = list(traces(list(CASES.values()), python=str(warm_python / "python")))
    for (name, asked), result in zip(CASES.items(), results, strict=True):
        architecture = read_architecture(asked["config"])
        assert architecture is not None
        computed = moments(architecture, update_of(asked))
        assert computed is not None
        off = {term: have / there - 1 for term, (have, there) in pairs(computed, result).items()}
        wrong |= {(name, term): round(share, 3) for term, share in off.items() if not -0.05 < share < 0.1}
    assert wrong == {}


def _peak(asked: dict[str, Any]) -> int:
    architecture = read_architecture(asked["config"])
    assert architecture is not None
    computed = moments(architecture, update_of(asked))
    assert computed is not None
    return computed.peak()


@pytest.mark.parametrize(
    ("less", "more"),
    [
        pytest.param(traced(checkpointing=True, batch=16), traced(batch=16), id="checkpointing"),
        pytest.param(traced(lora=LORA), traced(), id="adapter"),
        pytest.param(traced(), traced(dtype="float32"), id="width"),
        pytest.param(traced(), traced(batch=4), id="batch"),
        pytest.param(traced(), traced(completion=512), id="length"),
        pytest.param(traced(), traced(attention="eager", completion=512), id="attention"),
        pytest.param(traced(), traced(SMALL | {"num_hidden_layers": 3}), id="layers"),
    ],
)
def test_less_is_needed_for_less(less: dict[str, Any], more: dict[str, Any]) -> None:
    assert _peak(less) < _peak(more)


def test_an_unknown_optimizer_is_said() -> None:
    architecture = read_architecture(SMALL)
    assert architecture is not None
    assert moments(architecture, update_of(traced(optimizer="muon"))) is None
