"""The formulas say what the code of the installed libraries holds, as a trace counts it without holding it."""

from pathlib import Path
from typing import Any

import pytest
from traces import SMALL, pairs, traced, traces, update_of

from grpo_recipes.memory.moments import moments
from grpo_recipes.user_files.architecture import read_architecture
from grpo_recipes.user_files.model_config import lora_parameter_count, parameter_count

LORA = {"r": 8, "targets": "all-linear"}
WIDE = {"hidden_size": 512, "intermediate_size": 2048, "vocab_size": 256}
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
    "first micro-batch, checkpointing": traced(accumulation=1, checkpointing=True),
    "adapter under autocast, checkpointing": traced(lora=LORA, autocast="bfloat16", checkpointing=True),
    "four bits": traced(WIDE, lora=LORA, quantization="nf4", checkpointing=True),
    "eager attention": traced(attention="eager", completion=192),
    "experts": traced({**EXPERTS, "head_dim": 64}),
}
MORE_CASES = {
    "float32 under autocast": traced(dtype="float32", autocast="bfloat16"),
    "first micro-batch": traced(accumulation=1),
    "checkpointing": traced(checkpointing=True, batch=4),
    "adapter": traced(lora=LORA, completion=128),
    "four bits of a narrow model": traced(lora=LORA, quantization="nf4", checkpointing=True),
    "experts with an adapter": traced({**EXPERTS, "head_dim": 64}, lora=LORA),
}


@pytest.mark.stack
@pytest.mark.long
def test_the_peak_of_each_family_is_that_of_a_trace(warm_python: Path) -> None:
    off = {}
    results = traces(list(FAMILIES.values()), python=str(warm_python / "python"))
    for (name, asked), result in zip(FAMILIES.items(), results, strict=True):
        off[name] = round(_peak(asked) / result["peak"] - 1, 3)
    assert {name: share for name, share in off.items() if abs(share) > 0.05} == {}


@pytest.fixture(scope="module")
def traced_cases(warm_python: Path) -> dict[str, dict[str, Any]]:
    return dict(zip(CASES, traces(list(CASES.values()), python=str(warm_python / "python")), strict=True))


@pytest.mark.stack
def test_terms_and_moments_are_those_of_a_trace(traced_cases: dict[str, dict[str, Any]]) -> None:
    assert _wrong(CASES, list(traced_cases.values())) == {}


@pytest.mark.stack
@pytest.mark.long
def test_terms_and_moments_of_more_cases_are_those_of_a_trace(warm_python: Path) -> None:
    results = list(traces(list(MORE_CASES.values()), python=str(warm_python / "python")))
    assert _wrong(MORE_CASES, results) == {}


def _wrong(cases: dict[str, dict[str, Any]], results: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Terms that are computed otherwise than they were traced."""
    wrong = {}
    for (name, asked), result in zip(cases.items(), results, strict=True):
        architecture = read_architecture(asked["config"])
        assert architecture is not None
        computed = moments(architecture, update_of(asked))
        assert computed is not None
        off = {term: have / there - 1 for term, (have, there) in pairs(computed, result).items()}
        wrong |= {(name, term): round(share, 3) for term, share in off.items() if not -0.05 < share < 0.1}
    return wrong


@pytest.mark.stack
def test_traced_states_are_those_of_the_parameters(traced_cases: dict[str, dict[str, Any]]) -> None:
    full, adapted = traced_cases["full"], traced_cases["adapter under autocast, checkpointing"]
    count, trained = parameter_count(SMALL), lora_parameter_count(SMALL, 8, "all-linear")
    assert count is not None and trained is not None
    assert full["terms"]["gradients"] == 2 * count
    assert full["terms"]["optimizer"] == pytest.approx(4 * count, rel=1e-4)
    assert full["terms"]["weights"] == pytest.approx(2 * count, rel=1e-2)
    assert adapted["terms"]["adapter"] == adapted["terms"]["gradients"] == 4 * trained
    assert adapted["terms"]["weights"] == pytest.approx(2 * count + 4 * trained, rel=1e-2)


@pytest.mark.stack
def test_traced_checkpointing_keeps_the_inputs_of_the_layers_alone(traced_cases: dict[str, dict[str, Any]]) -> None:
    full, checkpointed = traced_cases["full"], traced_cases["first micro-batch, checkpointing"]
    of_a_layer = 2 * 128 * 256 * 2
    kept = checkpointed["terms"]["activations"]
    assert 2 * of_a_layer < kept < 8 * of_a_layer < full["terms"]["activations"]
    assert checkpointed["peak"] < full["peak"]


@pytest.mark.stack
def test_four_bits_are_traced_as_packed(traced_cases: dict[str, dict[str, Any]]) -> None:
    packed, count = traced_cases["four bits"]["terms"], parameter_count(SMALL | WIDE)
    assert count is not None
    assert packed["weights"] - packed["adapter"] < 0.4 * 2 * count


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
